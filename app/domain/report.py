"""The report: what was asked, run and found, with what it does not show.

A pure function of evidence and ``ANALYSIS_VERSION``; pages, figures, API and bundle state
only numbers that are here.
"""

from collections.abc import Iterator
from itertools import chain

from pydantic import BaseModel, ConfigDict

from app.domain.arm_memory import ArmMemory, arm_memory
from app.domain.comparison import MetricComparison, compare
from app.domain.condition import expand
from app.domain.control import Control
from app.domain.correctness import MISMATCHES_LISTED, SAMPLED, Correctness, Mismatch, verify
from app.domain.device import Device
from app.domain.engine_version import floor_reason, version_of_runtime
from app.domain.evidence import ExperimentEvidence, SessionEvidence
from app.domain.gates import ControlSummary, controls_of, experiment_controls, findings, reconcile_all, summaries
from app.domain.manifest import Manifest
from app.domain.mechanism import Mechanism, mechanism
from app.domain.output_length import with_output_lengths
from app.domain.pairing import CompleteBlocks, complete_blocks, strata_of
from app.domain.recommendation import Recommendation, recommend
from app.domain.reconciliation import Reconciliation
from app.domain.resolution import config_differences
from app.domain.results import ArmResult, arm_results
from app.domain.saturation import saturations
from app.domain.startup import StartupWarning
from app.domain.startup_gates import unchecked_canaries
from app.domain.statistics import Estimate, mean_over_blocks
from app.domain.verdict import BLOCKS_FOR_DECISION, Verdict, decide
from app.domain.vocabulary import BASELINE_ARM, NS_PER_S, Purpose, Saturation

__all__ = [
    "ANALYSIS_VERSION",
    "REPORT_FORMAT",
    "ArmResult",
    "Correctness",
    "DraftCost",
    "Estimate",
    "MetricComparison",
    "Mismatch",
    "Recommendation",
    "Reconciliation",
    "Report",
    "SessionSummary",
    "Verdict",
    "build_report",
]

REPORT_FORMAT = "verdraft/report/v0"
ANALYSIS_VERSION = "0.3"
FINDINGS_LISTED = 200
KV_CACHE_TOKENS = "kv_cache_tokens"
"""The engine adapter's name of the start-up log's line."""


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SessionSummary(_Frozen):
    """How one server started; cold-start numbers stay apart from measured ones."""

    block: int
    arm: str
    position: int
    state: str
    startup_s: float | None
    failure_class: str | None
    failure: str | None
    log_sha256: str | None
    memory: dict[str, str]
    warnings: tuple[StartupWarning, ...] = ()
    flags_left_out: dict[str, str] = {}
    """Flag that the runtime does not know → what is therefore not there."""
    config_source: str | None = None


class DraftCost(_Frozen):
    """What the arm costs beside time (spec M5, first form)."""

    arm: str
    startup_s: Estimate
    baseline_startup_s: Estimate
    kv_cache_tokens: str | None
    baseline_kv_cache_tokens: str | None


class Report(_Frozen):
    """Everything that a page, a figure or a reviewer may state."""

    format: str = REPORT_FORMAT
    analysis_version: str = ANALYSIS_VERSION
    experiment: str
    """The manifest's digest."""
    name: str
    manifest: Manifest
    interim: bool
    """True while blocks are missing: no decision may be taken from it."""
    exploratory: bool
    """True below five planned blocks: every verdict is marked."""
    blocks_planned: int
    blocks_complete: int
    strata: dict[str, tuple[str, ...]]
    """Workload → its strata, ``all`` first."""
    verdicts: tuple[Verdict, ...]
    recommendation: Recommendation
    results: tuple[ArmResult, ...]
    comparisons: tuple[MetricComparison, ...]
    correctness: tuple[Correctness, ...]
    mismatches: tuple[Mismatch, ...]
    reconciliations: tuple[Reconciliation, ...]
    controls: tuple[ControlSummary, ...]
    """Every control over all compared runs."""
    findings: tuple[Control, ...]
    """The controls that failed or warn, the failed first; at most so many are listed as the counts say."""
    sessions: tuple[SessionSummary, ...]
    costs: tuple[DraftCost, ...]
    memory: tuple[ArmMemory, ...]
    mechanism: tuple[Mechanism, ...]
    devices: tuple[Device, ...]
    """The GPUs that its sessions had; empty without one."""
    config_differences: dict[str, dict[str, tuple[str | None, str | None]]]
    """Arm → resolved field → (target-only, arm), for fields outside the allowed set; each makes the arm INVALID."""
    not_shown: tuple[str, ...]
    """What this experiment cannot tell, in words."""


def build_report(evidence: ExperimentEvidence) -> Report:
    """The whole analysis; the order of sessions and runs in the evidence does not matter.

    Raises ``EvidenceRefused`` where an observation is impossible (an interval that ends before it starts).
    """
    manifest, evidence = evidence.manifest, with_output_lengths(_in_order(evidence))
    blocks = complete_blocks(evidence)
    saturation = saturations(evidence, blocks)
    comparisons = compare(evidence, blocks, saturation)
    verification = verify(evidence, blocks)
    controls = controls_of(evidence, blocks)
    verdicts = decide(evidence, blocks, comparisons, verification.correctness, saturation=saturation, controls=controls)
    every = (*chain.from_iterable(controls.values()), *experiment_controls(evidence, blocks, saturation))
    interim = len(blocks.indices) < manifest.blocks
    return Report(
        experiment=manifest.digest,
        name=manifest.name,
        manifest=manifest,
        interim=interim,
        exploratory=manifest.blocks < BLOCKS_FOR_DECISION,
        blocks_planned=manifest.blocks,
        blocks_complete=len(blocks.indices),
        strata={w.name: tuple(strata_of(evidence.labels.get(w.name, ()))) for w in manifest.workloads},
        verdicts=verdicts,
        recommendation=recommend(manifest, verdicts, interim=interim),
        results=arm_results(evidence, blocks, saturation),
        comparisons=comparisons,
        correctness=verification.correctness,
        mismatches=verification.mismatches[:MISMATCHES_LISTED],
        reconciliations=reconcile_all(evidence),
        controls=summaries(every),
        findings=findings(every)[:FINDINGS_LISTED],
        sessions=tuple(map(_session_summary, evidence.sessions)),
        costs=tuple(_cost(evidence, blocks, arm.name) for arm in manifest.candidates),
        memory=arm_memory(evidence, blocks),
        mechanism=tuple(mechanism(c.arm, c.workload, c.load, blocks.of(c)) for c in expand(manifest)),
        devices=tuple({d.uuid: d for s in evidence.sessions for d in s.devices}.values()),
        config_differences=config_differences(evidence, blocks),
        not_shown=_not_shown(evidence, blocks, len(verification.mismatches), set(saturation.values())),
    )


def _in_order(evidence: ExperimentEvidence) -> ExperimentEvidence:
    """The same evidence in one order, so that the same facts give the same bytes."""
    return evidence.model_copy(
        update={
            "sessions": tuple(
                sorted(evidence.sessions, key=lambda s: (s.block, s.position, s.arm, s.state, s.model_dump_json()))
            ),
            "runs": tuple(
                sorted(evidence.runs, key=lambda r: (r.block, r.arm, r.workload, r.load, r.attempt, r.state))
            ),
        }
    )


def _session_summary(session: SessionEvidence) -> SessionSummary:
    return SessionSummary(
        block=session.block,
        arm=session.arm,
        position=session.position,
        state=str(session.state),
        startup_s=None if session.startup_ns is None else session.startup_ns / NS_PER_S,
        failure_class=str(session.failure.failure_class) if session.failure else None,
        failure=session.failure.message if session.failure else None,
        log_sha256=session.log_sha256,
        memory=session.memory,
        warnings=session.warnings,
        flags_left_out=session.flags_left_out,
        config_source=None if session.config_source is None else str(session.config_source),
    )


def _cost(evidence: ExperimentEvidence, blocks: CompleteBlocks, arm: str) -> DraftCost:
    def sessions(name: str) -> list[SessionEvidence]:
        return [s for s in evidence.sessions if s.arm == name and s.block in blocks.indices]

    def startup(name: str) -> Estimate:
        return mean_over_blocks([s.startup_ns / NS_PER_S for s in sessions(name) if s.startup_ns is not None], "s")

    return DraftCost(
        arm=arm,
        startup_s=startup(arm),
        baseline_startup_s=startup(BASELINE_ARM),
        kv_cache_tokens=_kv_cache_tokens(sessions(arm)),
        baseline_kv_cache_tokens=_kv_cache_tokens(sessions(BASELINE_ARM)),
    )


def _kv_cache_tokens(sessions: list[SessionEvidence]) -> str | None:
    """As the engine printed it; several values where its sessions differed."""
    stated = [session.memory[KV_CACHE_TOKENS] for session in sessions if KV_CACHE_TOKENS in session.memory]
    return " / ".join(dict.fromkeys(stated)) or None


def _not_shown(
    evidence: ExperimentEvidence, blocks: CompleteBlocks, mismatches: int, saturation: set[Saturation]
) -> tuple[str, ...]:
    manifest = evidence.manifest
    said = [
        "strata are exploratory: their intervals are not adjusted for how many there are",
        "throughput at a stable open-loop load is set by the arrivals, not by the arm; read it only under saturation",
        "latency quantiles within runs take requests as independent, which those of one queue are not",
    ]
    if mismatches > MISMATCHES_LISTED:
        said.append(f"{mismatches - MISMATCHES_LISTED} further mismatches are counted but not listed")
    if mismatches:
        said.append("mismatches were not re-run singly, so near ties are not told from defects")
    if manifest.sampling.temperature > 0:
        said.append(SAMPLED)
    if Saturation.UNDECIDED in saturation:
        said.append("some runs are too short, below 50 service times, to tell whether their queue grew")
    if manifest.blocks < BLOCKS_FOR_DECISION:
        said.append(f"{manifest.blocks} blocks: exploratory, no decision")
    if manifest.hardware.accelerator.lower().startswith("cpu") or manifest.software.cuda == "none":
        said.append("measured without a GPU: nothing here carries over to one")
    return (*said, *_asked_for(manifest), *_untold_by_engine(evidence, blocks))


def _asked_for(manifest: Manifest) -> Iterator[str]:
    """What the manifest itself accepts, and what that costs the reader."""
    if manifest.purpose is Purpose.OVERHEAD_PROFILING:
        yield "lossy acceptance was measured for its cost: nothing is claimed about outputs"
    if outside := [arm.name for arm in manifest.candidates if arm not in manifest.decided]:
        yield f"{', '.join(outside)}: outside the declared family, exploratory"
    if manifest.engine_below_floor is not None:
        known = floor_reason(version_of_runtime(manifest.runtime)) or "the engine is not below the security floor"
        yield f"{known}; accepted because: {manifest.engine_below_floor}"


def _untold_by_engine(evidence: ExperimentEvidence, blocks: CompleteBlocks) -> Iterator[str]:
    """What this engine's version cannot tell, and what an earlier worker did not look at."""
    for flag, lost in dict.fromkeys(item for s in evidence.sessions for item in s.flags_left_out.items()):
        yield f"{lost} (this engine lacks {flag})"
    if unseen := unchecked_canaries(evidence, blocks):
        yield f"{unseen} servers were recorded without a look at their counters after the canary"
