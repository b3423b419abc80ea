"""What the fake engine's dials say is what the report says: every quantity of spec E1, measured for real.

Then each fault that a control is there for is put into the same evidence by itself: the control meant for it finds it.
"""

import pytest

from app.domain.control import Control, ControlOutcome
from app.domain.evidence import ExperimentEvidence
from app.domain.gates import controls_of, experiment_controls
from app.domain.mechanism import Mechanism
from app.domain.pairing import complete_blocks
from app.domain.report import ArmResult, Report, build_report
from app.domain.saturation import saturations
from app.domain.trace import parse_trace
from app.domain.vocabulary import NS_PER_S
from tests.factories import BASELINE, encode_lines, trace_lines
from tests.worker.conduct import PlaceMaker
from tests.worker.faults import ARM, FAULTS, TOKENS, on_a_quiet_host

K = 4
ACCEPTANCE = (0.8, 0.6, 0.5, 0.4)
"""Conditional, by draft position."""
DRAFT_RATE = 0.7
STEP_MS, TTFT_MS, TARGET_STEP_MS = 6.0, 8.0, 8.0
REQUESTS = 120
RATE_RPS = 12
LOADS = ({"name": "low", "regime": "latency", "rate_rps": float(RATE_RPS)},)
CANDIDATE = {
    "name": ARM,
    "speculation": {"method": "ngram", "num_speculative_tokens": K, "prompt_lookup_min": 2, "prompt_lookup_max": 5},
}
_MEASURED: list[ExperimentEvidence] = []
"""Conducted once for all tests of this file: it takes half a minute."""


@pytest.fixture
async def measured(place: PlaceMaker) -> ExperimentEvidence:
    """One block of both arms."""
    if not _MEASURED:
        _MEASURED.append(await _conduct(place))
    return _MEASURED[0]


async def _conduct(place: PlaceMaker) -> ExperimentEvidence:
    here = place(
        ttft_ms=TTFT_MS,
        step_ms={"target_only": TARGET_STEP_MS, "ngram": STEP_MS},
        acceptance={"ngram": list(ACCEPTANCE)},
        draft_rate={"ngram": DRAFT_RATE},
        noise=0.05,
    )
    lines = trace_lines(loads=LOADS, requests=REQUESTS, warmup=4, max_tokens=TOKENS)
    lines[0]["loads"][0]["duration_ns"] = round(REQUESTS * NS_PER_S / RATE_RPS)
    for index, line in enumerate(lines[1:]):
        # The fake draws its luck from the prompt, so that each needs its own.
        line["prompt_token_ids"] = [index, 7, 7]
        line["due_ns"] = max(index - 4, 0) * NS_PER_S // RATE_RPS
    trace = parse_trace(encode_lines(lines))
    manifest = await here.submit(trace, arms=[BASELINE, CANDIDATE], loads=list(LOADS))
    await here.conduct()
    return await here.evidence(manifest)


def result(report: Report, arm: str) -> ArmResult:
    return next(r for r in report.results if r.arm == arm and r.stratum == "all")


def engine(report: Report, arm: str) -> Mechanism:
    return next(m for m in report.mechanism if m.arm == arm)


def expected_accepted() -> float:
    """Tokens that a draft has accepted on average: the sum of the unconditional rates."""
    unconditional, product = [], 1.0
    for rate in ACCEPTANCE:
        product *= rate
        unconditional.append(product)
    return sum(unconditional)


def close(found: float | None, truth: float, *, within: float) -> bool:
    return found is not None and abs(found - truth) <= within * truth


async def test_acceptance_and_counts_are_the_dials(measured: ExperimentEvidence) -> None:
    report = build_report(measured)
    found = result(report, ARM)
    conditional = [c for c in found.conditional_acceptance_by_position if c is not None]
    assert [round(c, 1) for c in conditional] == list(ACCEPTANCE)
    assert all(a >= b for a, b in zip(found.acceptance_by_position, found.acceptance_by_position[1:], strict=False))
    assert close(found.acceptance_rate.value, expected_accepted() / K, within=0.05)
    assert close(found.mean_length_excl.value, expected_accepted(), within=0.05)
    assert close(found.mean_length_incl.value, 1 + expected_accepted(), within=0.05)
    # A step emits one token and, where it has a draft, what that accepts; the last step of an answer is cut short.
    assert close(found.mean_length_emit.value, 1 + DRAFT_RATE * expected_accepted(), within=0.06)
    tokens = found.tokens
    assert (tokens.requested, tokens.emitted) == (REQUESTS * TOKENS, REQUESTS * TOKENS)
    assert tokens.drafted is not None
    assert tokens.accepted is not None
    assert tokens.rejected == tokens.drafted - tokens.accepted
    assert tokens.cached == 0
    # Three steps in ten have no draft, so that few answers leave no place open; tests/domain has those that do.
    along = found.acceptance_along_output
    assert along.drafting == REQUESTS
    assert 0 < along.placed < REQUESTS


async def test_times_are_the_dials(measured: ExperimentEvidence) -> None:
    report = build_report(measured)
    target, arm = result(report, "target-only"), result(report, ARM)
    for found, step_ms in ((target, TARGET_STEP_MS), (arm, STEP_MS)):
        assert TTFT_MS <= (found.ttft_ms["p50"].value or 0) < TTFT_MS + 15
        assert step_ms * 0.9 <= (found.itl_chunk_ms["p50"].value or 0) < step_ms + 4
        assert (found.queue_ms["p50"].value or 0) < 15
        assert close(found.request_throughput_rps.value, 12.0, within=0.15)
        assert close(found.output_throughput_tps.value, 12.0 * TOKENS, within=0.15)
        assert found.outcomes == {"success": REQUESTS}
    emitted = arm.mean_length_emit.value or 1
    assert (arm.tpot_ms["p50"].value or 0) < (target.tpot_ms["p50"].value or 0)
    assert close(arm.tpot_ms["p50"].value, STEP_MS / emitted, within=0.5)
    assert (arm.itl_token_ms["p50"].value or 0) < (arm.itl_chunk_ms["p50"].value or 0)
    mechanism = engine(report, ARM)
    assert close(mechanism.step_ms.value, STEP_MS, within=0.05)
    assert close(engine(report, "target-only").target_step_ms.value, TARGET_STEP_MS, within=0.05)
    assert mechanism.draft_step_ms.value is None
    assert "not observable" in (mechanism.draft_step_ms.why or "")


async def test_cache_memory_and_what_nobody_can_see(measured: ExperimentEvidence) -> None:
    report = build_report(measured)
    found = engine(report, ARM)
    assert 0 < (found.kv_cache_usage_peak.value or 0) <= 1
    assert found.preemptions.value == 0
    assert (found.engine_rss_peak_bytes.value or 0) > 10_000_000
    assert (found.engine_cpu_per_token_ms.value or 0) > 0
    assert found.power_w.value is None
    assert "GPU" in (found.power_w.why or "")
    assert {memory.arm for memory in report.memory} == {"target-only", ARM}


def of_name(evidence: ExperimentEvidence, name: str) -> list[Control]:
    blocks = complete_blocks(evidence)
    every = [c for found in controls_of(evidence, blocks).values() for c in found]
    every += experiment_controls(evidence, blocks, saturations(evidence, blocks))
    return [c for c in every if c.name == name]


def gravest(evidence: ExperimentEvidence, name: str) -> ControlOutcome | None:
    order = (ControlOutcome.PASS, ControlOutcome.NOT_CHECKABLE, ControlOutcome.WARN, ControlOutcome.FAIL)
    return max((c.outcome for c in of_name(evidence, name)), key=order.index, default=None)


async def test_each_fault_is_found_by_the_control_meant_for_it(measured: ExperimentEvidence) -> None:
    assert len(FAULTS) >= 30
    sound = on_a_quiet_host(measured)
    missed = {
        fault.name: (gravest(sound, fault.control), found)
        for fault in FAULTS
        if (found := gravest(fault.put_into(sound), fault.control)) is not fault.outcome
        or gravest(sound, fault.control) is fault.outcome
    }
    assert missed == {}
