"""The report: what was asked, run and found, with what it does not show.

A pure function of evidence and ``ANALYSIS_VERSION``; pages, figures, API and bundle state
only numbers that are here.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from app.domain.arm_memory import ArmMemory, arm_memory
from app.domain.attrition import Attrition, attrition
from app.domain.brackets import Crossover, Knee, crossovers, knees
from app.domain.burden import burden
from app.domain.canonical import canonical_model
from app.domain.caveats import not_shown
from app.domain.comparison import MetricComparison
from app.domain.condition import Condition, expand
from app.domain.control import Control
from app.domain.correct_answers import CorrectAnswers
from app.domain.correctness import MISMATCHES_LISTED, Correctness
from app.domain.counterfactual import CounterfactualK, Headroom, counterfactuals, headroom
from app.domain.degenerate import DegenerateAnswers
from app.domain.device import Device
from app.domain.evidence import ExperimentEvidence
from app.domain.explanation import Explanation, explain
from app.domain.finding import BLOCKS_FOR_DECISION
from app.domain.gates import ControlSummary, experiment_controls, findings, reconcile_all, summaries
from app.domain.greedy_mismatch import Mismatch
from app.domain.judged import LookTaken, judge
from app.domain.k_schedule import KSchedule, k_schedules
from app.domain.losslessness import Losslessness, losslessness
from app.domain.manifest import Manifest
from app.domain.mechanism import Mechanism, mechanism
from app.domain.pairing import ALL, CompleteBlocks, strata_of
from app.domain.recommendation import Recommendation, recommend
from app.domain.reconciliation import Reconciliation
from app.domain.reproducibility import ChecklistItem, Facts, checklist
from app.domain.resolution import config_differences
from app.domain.rests_on import Expiry, Pin, Standing, pins_of
from app.domain.results import ArmResult, arm_results
from app.domain.sampling_equality import SampledEquality
from app.domain.selection import Selection, selection
from app.domain.servers import DraftCost, SessionSummary, draft_cost, session_summary
from app.domain.startup_gates import without_request_counts
from app.domain.statistics import Estimate
from app.domain.verdict import Verdict
from app.domain.vocabulary import VerdictWord
from app.domain.weighing import weigh

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
ANALYSIS_VERSION = "0.6"
FINDINGS_LISTED = 200


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


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
    """Those that the report is about: of an experiment that stopped at a look, the blocks of that look."""
    confidence: float | None = None
    """Of the family and its intervals: the declared one, less what earlier looks could spend."""
    looks: tuple[LookTaken, ...] = ()
    """The planned looks that were due; empty without any."""
    strata: dict[str, tuple[str, ...]]
    """Workload → its strata, ``all`` first."""
    verdicts: tuple[Verdict, ...]
    recommendation: Recommendation
    selection: Selection | None = None
    """What picking the best of several arms adds by luck; ``None`` where there was nothing to pick."""
    results: tuple[ArmResult, ...]
    comparisons: tuple[MetricComparison, ...]
    attrition: tuple[Attrition, ...] = ()
    """Where requests failed: how far they could move the ratio."""
    knees: tuple[Knee, ...] = ()
    """Per arm and workload, between which tested loads its queue begins to grow."""
    crossovers: tuple[Crossover, ...] = ()
    """Per arm and workload, between which tested loads it stops helping."""
    schedules: tuple[KSchedule, ...] = ()
    """Per proposer and workload, its k by running batch size, or why none can be given."""
    correctness: tuple[Correctness, ...]
    mismatches: tuple[Mismatch, ...]
    losslessness: tuple[Losslessness, ...] = ()
    """Whether each arm's way of verifying drafts is meant to keep the target's distribution."""
    sampling: tuple[SampledEquality, ...] = ()
    """Each arm's sampled answers against target-only's; empty where nothing is sampled."""
    correct_answers: tuple[CorrectAnswers, ...] = ()
    """Per arm, workload and stratum; empty where no workload declares a scorer."""
    degenerate: tuple[DegenerateAnswers, ...] = ()
    reconciliations: tuple[Reconciliation, ...]
    controls: tuple[ControlSummary, ...]
    """Every control over all compared runs."""
    findings: tuple[Control, ...]
    """The controls that failed or warn, the failed first; at most so many are listed as the counts say."""
    sessions: tuple[SessionSummary, ...]
    costs: tuple[DraftCost, ...]
    memory: tuple[ArmMemory, ...]
    mechanism: tuple[Mechanism, ...]
    explanations: tuple[Explanation, ...]
    """One per candidate condition: where the time went, and what acceptance alone foretells."""
    counterfactuals: tuple[CounterfactualK, ...]
    headroom: tuple[Headroom, ...]
    devices: tuple[Device, ...]
    """The GPUs that its sessions had; empty without one."""
    config_differences: dict[str, dict[str, tuple[str | None, str | None]]]
    """Arm → resolved field → (target-only, arm), for fields outside the allowed set; each makes the arm INVALID."""
    not_shown: tuple[str, ...]
    """What this experiment cannot tell, in words."""
    checklist: tuple[ChecklistItem, ...] = ()
    """Whether somebody else could do it again: ten items with their evidence."""
    pins: tuple[Pin, ...] = ()
    """What it rests on, and what would end it."""
    expiry: Expiry | None = None
    """Whether that still holds at the moment of asking: who serves a report adds it, no evidence has it."""

    @property
    def expired(self) -> bool:
        """Whether it speaks of what is no longer there."""
        return self.expiry is not None and self.expiry.standing is Standing.EXPIRED


def build_report(evidence: ExperimentEvidence) -> Report:
    """The whole analysis; the order of sessions and runs in the evidence does not matter.

    Raises ``EvidenceRefused`` where an observation is impossible (an interval that ends before it starts).
    """
    manifest = evidence.manifest
    found, looks = judge(_in_order(evidence))
    at, blocks, comparisons, verdicts = found.evidence, found.blocks, found.comparisons, found.verdicts
    evidence = at.model_copy(update={"manifest": manifest})
    controls = (*chain.from_iterable(found.controls.values()), *experiment_controls(evidence, blocks, found.saturation))
    interim = len(blocks.indices) < manifest.blocks and not any(look.stops for look in looks)
    results = arm_results(evidence, blocks, found.saturation)
    why = _reasons(evidence, blocks, results)
    burdens = {arm.name: burden(evidence, blocks, arm) for arm in manifest.candidates}
    weighing = weigh(at.manifest, verdicts, comparisons, burdens, blocks)
    picked = selection(manifest, comparisons, len(blocks.indices), invalid=_invalid(verdicts))
    schedules = k_schedules(at, blocks, verdicts, comparisons)
    facts = Facts(
        evidence,
        blocks,
        controls=summaries(controls),
        results=results,
        saturation=found.saturation,
        correctness=found.verification.correctness,
        sampling=found.sampling,
        memory=arm_memory(evidence, blocks),
        reconciliations=reconcile_all(evidence),
    )
    return Report(
        experiment=manifest.digest,
        name=manifest.name,
        manifest=manifest,
        interim=interim,
        exploratory=manifest.blocks < BLOCKS_FOR_DECISION,
        blocks_planned=manifest.blocks,
        blocks_complete=len(blocks.indices),
        confidence=at.manifest.margins.confidence,
        looks=looks,
        strata={w.name: tuple(strata_of(evidence.labels.get(w.name, ()))) for w in manifest.workloads},
        verdicts=verdicts,
        recommendation=recommend(manifest, verdicts, weighing, schedules, interim=interim),
        selection=picked,
        results=results,
        comparisons=comparisons,
        attrition=attrition(manifest, blocks),
        knees=knees(manifest, found.saturation),
        crossovers=crossovers(manifest, verdicts),
        schedules=schedules,
        correctness=found.verification.correctness,
        mismatches=found.verification.mismatches[:MISMATCHES_LISTED],
        losslessness=losslessness(evidence),
        sampling=found.sampling,
        correct_answers=found.answers.correct,
        degenerate=found.answers.degenerate,
        reconciliations=facts.reconciliations,
        controls=facts.controls,
        findings=findings(controls)[:FINDINGS_LISTED],
        sessions=tuple(map(session_summary, evidence.sessions)),
        costs=tuple(draft_cost(evidence, blocks, arm.name) for arm in manifest.candidates),
        memory=facts.memory,
        mechanism=tuple(mechanism(c, blocks.of(c), speculates=c.arm in manifest.speculative) for c in expand(manifest)),
        explanations=why.explanations,
        counterfactuals=why.counterfactuals,
        headroom=why.headroom,
        devices=tuple({d.uuid: d for s in evidence.sessions for d in s.devices}.values()),
        config_differences=config_differences(evidence, blocks),
        not_shown=not_shown(evidence, blocks, len(found.verification.mismatches), set(found.saturation.values())),
        checklist=checklist(facts),
        pins=pins_of(manifest, ANALYSIS_VERSION),
    )


def with_expiry(document: bytes, expiry: Expiry) -> bytes:
    """A report's canonical JSON with it: that of a large report is not made again for each who asks."""
    before, found, after = document.partition(b'"expiry":null')  # no text can hold it: its quotes would be escaped
    if not found:
        raise ValueError("the document has no place for it")
    return before + b'"expiry":' + canonical_model(expiry) + after


class _Reasons(NamedTuple):
    explanations: tuple[Explanation, ...]
    counterfactuals: tuple[CounterfactualK, ...]
    headroom: tuple[Headroom, ...]


def _reasons(evidence: ExperimentEvidence, blocks: CompleteBlocks, results: tuple[ArmResult, ...]) -> _Reasons:
    manifest = evidence.manifest
    explanations = tuple(_explanations(evidence, blocks, results))
    shorter = (
        counterfactuals(manifest, blocks, Condition(e.arm, e.workload, e.load), e.step_cost.value) for e in explanations
    )
    served = ((w.name, load.name) for w in manifest.workloads for load in manifest.loads)
    return _Reasons(
        explanations,
        tuple(chain.from_iterable(shorter)),
        tuple(headroom(manifest, blocks, workload, load) for workload, load in served),
    )


def _explanations(
    evidence: ExperimentEvidence, blocks: CompleteBlocks, results: tuple[ArmResult, ...]
) -> Iterator[Explanation]:
    overall = {Condition(r.arm, r.workload, r.load): r for r in results if r.stratum == ALL}
    blind = {arm for _, arm in without_request_counts(evidence)}
    drafted = {arm.name: arm.speculation.num_speculative_tokens or 0 for arm in evidence.manifest.candidates}
    for condition in expand(evidence.manifest):
        if (arm := condition.arm) in drafted:
            told = arm not in blind
            yield explain(blocks, condition, k=drafted[arm], overall=overall[condition], counts_per_request=told)


def _invalid(verdicts: Iterable[Verdict]) -> frozenset[str]:
    """Arms of which a condition is INVALID."""
    return frozenset(v.arm for v in verdicts if v.word is VerdictWord.INVALID)


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
