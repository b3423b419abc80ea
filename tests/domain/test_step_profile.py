"""Target and draft time per step, from a real trace and from ones whose answer is known by construction."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.domain.errors import EvidenceRefused
from app.domain.step_profile import (
    PREFIX,
    SCOPES,
    TARGET_SCOPES,
    Clock,
    StepKind,
    StepProfile,
    StepTimes,
    span_of,
    step_profile,
)

RECORDED = Path(__file__).parent.parent / "data" / "profile"
HOST, DEVICE = "user_annotation", "gpu_user_annotation"
DECODE, PREFILL, EMPTY = (
    "execute_context_0(0)_generation_2(10)",
    "execute_context_1(71)_generation_1(5)",
    "execute_context_0(0)_generation_0(0)",
)

Event = dict[str, Any]


def event(name: str, at_us: float, lasts_us: float, category: str = HOST) -> Event:
    scope = name if name.startswith("execute") else f"{PREFIX}{name}"
    return {"ph": "X", "cat": category, "name": scope, "ts": at_us, "dur": lasts_us}


def step(annotation: str, at_us: float, scopes_us: dict[str, float], category: str = HOST) -> list[Event]:
    """A step whose scopes follow each other from its very beginning."""
    events, at = [event(annotation, at_us, 1.0, category)], at_us
    for name, lasts_us in scopes_us.items():
        events.append(event(name, at, lasts_us, category))
        at += lasts_us
    return events


def profile(events: list[Event], *, drafts: bool = True) -> StepProfile:
    return step_profile((span for found in events if (span := span_of(found))), drafts=drafts)


def of(told: StepProfile, kind: StepKind) -> StepTimes:
    times = told.of(kind)
    assert times is not None
    return times


def recorded(name: str = "draft_model_cpu") -> list[Event]:
    return json.loads((RECORDED / f"{name}.json").read_text())["traceEvents"]


def test_what_a_real_engine_wrote() -> None:
    told = profile(recorded())
    assert (told.clock, told.not_observable) == (Clock.HOST, {})
    times = of(told, StepKind.DECODE)
    assert (times.steps, times.requests_per_step, times.tokens_per_step) == (14, 1.0, 5.0)
    assert [(s.scope, s.n) for s in times.scopes] == [(name, 14) for name in SCOPES]
    assert times.target_ms == pytest.approx(13.452, abs=1e-3)
    assert times.draft_ms == pytest.approx(12.974, abs=1e-3)
    assert times.whole_steps == 12  # the last step of each of the two requests has no next
    assert times.whole_ms == pytest.approx(36.737, abs=1e-3)
    assert times.rest_ms == pytest.approx(36.737 - 13.452 - 12.974, abs=2e-3)
    assert of(told, StepKind.PREFILL).steps == 2


def test_ngram_drafts_under_the_same_scope() -> None:
    told = profile(recorded("ngram_cpu"))
    times = of(told, StepKind.DECODE)
    assert told.not_observable == {}
    assert [(s.scope, s.n) for s in times.scopes] == [(name, times.steps) for name in SCOPES]
    assert times.tokens_per_step is not None
    assert 1 < times.tokens_per_step < 5  # it drafts only what it finds
    assert times.target_ms is not None
    assert times.draft_ms is not None
    assert 0 < times.draft_ms < times.target_ms / 10


def test_the_order_of_the_events_does_not_matter() -> None:
    assert profile(recorded()[::-1]) == profile(recorded())


def test_a_known_step_is_told_exactly() -> None:
    one = {"preprocess": 1_000.0, "forward": 5_000.0, "sample": 2_000.0, "draft": 3_000.0}
    other = {"preprocess": 1_000.0, "forward": 7_000.0, "sample": 2_000.0}
    events = [*step(DECODE, 0, one), *step(DECODE, 20_000, other), *step(PREFILL, 50_000, {"forward": 40_000.0})]
    told = profile(events)
    times = of(told, StepKind.DECODE)
    assert (times.steps, times.requests_per_step, times.tokens_per_step) == (2, 2.0, 10.0)
    assert (times.target_ms, times.draft_ms) == (9.0, 1.5)  # a step that drafted nothing is a step all the same
    assert (times.whole_steps, times.whole_ms) == (1, 20.0)
    forward = next(scope for scope in times.scopes if scope.scope == "forward")
    assert (forward.n, forward.mean_ms, forward.median_ms, forward.total_ms) == (2, 6.0, 6.0, 12.0)
    assert of(told, StepKind.PREFILL).target_ms == 40.0
    assert set(told.not_observable) == {"postprocess", "bookkeep"}


def test_the_devices_clock_goes_before_the_hosts() -> None:
    launches = {"forward": 10.0, "bookkeep": 900.0, "draft": 10.0}
    kernels = {"forward": 6_000.0, "draft": 2_000.0}
    told = profile([*step(DECODE, 0, launches), *step(DECODE, 50, kernels, DEVICE)])
    assert told.clock is Clock.DEVICE
    times = of(told, StepKind.DECODE)
    assert (times.steps, times.target_ms, times.draft_ms) == (1, 6.0, 2.0)
    assert "no span on the device's clock" in told.not_observable["bookkeep"]


def test_what_another_stream_did_meanwhile_does_not_count_twice() -> None:
    main = step(DECODE, 0, {"forward": 6_000.0, "draft": 2_000.0}, DEVICE)
    copies = step(DECODE, 100, {"forward": 10.0, "draft": 7_000.0, "bookkeep": 10.0}, DEVICE)
    told = profile([*main, *(found | {"tid": 20} for found in copies)])
    times = of(told, StepKind.DECODE)
    assert (times.steps, times.target_ms, times.draft_ms) == (1, 6.0, 2.0)
    assert "bookkeep" in told.not_observable


def test_steps_without_requests_and_steps_that_were_cut_off_do_not_count() -> None:
    cut_off = [event("forward", 0, 500.0)]
    told = profile([*cut_off, *step(DECODE, 1_000, {"forward": 2_000.0}), *step(EMPTY, 9_000, {"preprocess": 9.0})])
    times = of(told, StepKind.DECODE)
    assert (times.steps, times.target_ms, times.whole_ms) == (1, 2.0, None)
    assert times.rest_ms is None


def test_detailed_annotations_say_the_same() -> None:
    detailed = "execute_10_context_0(sq0sk0sqsq0sqsk0)_generation_2(sq10sk99sqsq7sqsk8)"
    assert profile(step(detailed, 0, {"forward": 1.0})) == profile(step(DECODE, 0, {"forward": 1.0}))


def test_without_annotations_steps_are_not_told_apart() -> None:
    events = [event(name, at, 100.0) for at in (0, 1_000) for name in TARGET_SCOPES]
    told = profile(events)
    assert told.decoding == of(told, StepKind.UNKNOWN)
    assert told.decoding is not None
    assert (told.decoding.steps, told.decoding.requests_per_step, told.decoding.whole_ms) == (2, None, None)
    assert "told apart" in told.not_observable["batch"]


@pytest.mark.parametrize(
    ("drafts", "words"), [(False, "this arm has no proposer"), (True, "drafts outside its scopes with this method")]
)
def test_no_draft_is_no_zero(*, drafts: bool, words: str) -> None:
    told = profile(step(DECODE, 0, dict.fromkeys(TARGET_SCOPES, 10.0)), drafts=drafts)
    assert list(told.not_observable) == ["draft"]
    assert words in told.not_observable["draft"]
    assert of(told, StepKind.DECODE).draft_ms is None


def test_a_trace_without_scopes_says_why() -> None:
    told = profile([*step(DECODE, 0, {}), {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 2}])
    assert list(told.not_observable) == ["scopes"]
    assert told.decoding is not None
    assert (told.decoding.target_ms, told.decoding.scopes) == (None, ())
    assert profile([]).decoding is None


@pytest.mark.parametrize("broken", [{"ts": None}, {"dur": "long"}, {"dur": -1.0}])
def test_a_span_without_times_is_refused(broken: Event) -> None:
    with pytest.raises(EvidenceRefused, match="forward starts at"):
        span_of(event("forward", 1.0, 2.0) | broken)
