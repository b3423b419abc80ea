"""The cost of an experiment, and what its blocks can show (method A4, A9)."""

import math

import pytest

from app.domain.estimate import (
    CPU_MODEL,
    GPU_MODEL,
    CostEstimate,
    PastTimes,
    SessionTimes,
    absurdities,
    estimate,
    measured_times,
)
from app.domain.manifest import Manifest
from tests.factories import make_manifest, make_trace

TRACE = make_trace(requests=20)
PAST = PastTimes(startup_s=30, session_overhead_s=20, run_overhead_s=5, source="here", log_ratio_sd=0.02)


def cost_of(manifest: Manifest, past: PastTimes | None = PAST) -> CostEstimate:
    return estimate(manifest, {"tasks": TRACE.header}, past)


def test_sessions_runs_requests_and_minutes_are_counted() -> None:
    cost = cost_of(make_manifest(traces={"tasks": TRACE.digest}, blocks=5))
    assert (cost.sessions, cost.conditions, cost.runs, cost.requests) == (10, 2, 10, 200)
    assert (cost.startup_s, cost.replay_s, cost.overhead_s) == (300, 200, 250)
    assert cost.wall_minutes == pytest.approx(12.5)
    assert cost.times_from == "here"


def test_accelerator_minutes_count_every_accelerator_of_a_server() -> None:
    serving = make_manifest().serving.model_dump() | {"tensor_parallel_size": 4}
    cost = cost_of(make_manifest(serving=serving))
    assert cost.accelerator_minutes == pytest.approx(4 * cost.wall_minutes)


def test_without_past_sessions_a_model_is_used_and_named() -> None:
    gpu = {"driver": "570", "cuda": "12.8", "os": "o", "kernel": "k"}
    assert cost_of(make_manifest(), None).times_from == CPU_MODEL.source
    assert cost_of(make_manifest(software=gpu), None).times_from == GPU_MODEL.source
    assert "assumption" in cost_of(make_manifest(), None).sd_from
    assert cost_of(make_manifest()).sd_from == "past experiments of this host"


@pytest.mark.parametrize(("blocks", "in_sds"), [(3, 3.25), (4, 2.14), (5, 1.68), (6, 1.44), (8, 1.16), (12, 0.89)])
def test_the_detectable_effect_is_that_of_the_method(blocks: int, in_sds: float) -> None:
    effect = cost_of(make_manifest(blocks=blocks)).minimum_detectable_effect
    assert effect is not None
    assert math.log1p(effect) / 0.02 == pytest.approx(in_sds, rel=0.01)


def test_one_block_detects_nothing() -> None:
    assert cost_of(make_manifest(blocks=1)).minimum_detectable_effect is None


def test_a_larger_family_needs_more_blocks_and_detects_less() -> None:
    loads = [{"name": f"l{i}", "regime": "serving", "rate_rps": i + 1} for i in range(8)]
    small, large = cost_of(make_manifest(blocks=5)), cost_of(make_manifest(blocks=5, loads=loads))
    assert small.minimum_detectable_effect == large.minimum_detectable_effect
    assert small.minimum_detectable_effect_in_family is not None
    assert large.minimum_detectable_effect_in_family is not None
    assert small.minimum_detectable_effect_in_family < large.minimum_detectable_effect_in_family
    assert small.blocks_for_delta is not None
    assert large.blocks_for_delta is not None
    assert small.blocks_for_delta < large.blocks_for_delta


def test_a_workload_that_is_not_known_is_left_out_and_named() -> None:
    cost = estimate(make_manifest(), {}, PAST)
    assert cost.replay_s == 0
    assert "tasks" in cost.notes[0]


def test_past_times_are_medians_and_explain_the_whole_session() -> None:
    sessions = [SessionTimes(startup_s=s, wall_s=s + 100, replay_s=60, runs=4) for s in (20, 30, 90)]
    times = measured_times(sessions)
    assert times is not None
    assert times.startup_s == 30
    assert times.startup_s + times.session_overhead_s + 4 * times.run_overhead_s + 60 == 130
    assert "3 sessions" in times.source
    assert measured_times([]) is None


def test_an_absurd_experiment_is_refused_with_the_bound() -> None:
    cost = cost_of(make_manifest(blocks=5))
    assert list(absurdities(cost)) == []
    ten_years = cost.model_copy(update={"wall_minutes": 10 * 365 * 24 * 60.0, "requests": 10**8})
    problems = list(absurdities(ten_years))
    assert ["336" in problems[0].message, "5000000" in problems[1].message] == [True, True]


def test_the_model_foretells_the_demo_that_it_was_taken_from() -> None:
    """15 sessions of two workloads at loads of 8 and 13 s took 133 s each (median)."""
    loads = [{"name": f"l{i}", "regime": "serving", "rate_rps": i + 1.0} for i in range(2)]
    trace = make_trace(loads=loads, requests=21)
    manifest = make_manifest(traces={"edit": trace.digest, "open": trace.digest}, loads=loads, blocks=5)
    cost = estimate(manifest, {"edit": trace.header, "open": trace.header}, None)
    replayed_s = 2 * 2 * 21.0
    assert (cost.wall_minutes * 60) / cost.sessions - replayed_s == pytest.approx(133 - 42, rel=0.02)
