"""Degenerate answers, an arm's beside target-only's: loops, answers cut off, empty ones, another script (spec V5).

Target-only is the measure: where both loop alike nothing is the arm's fault, but lengths accepted inside loops say
little about other answers, so acceptance is also told without them.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict
from scipy import stats

from app.domain import block_acceptance
from app.domain.acceptance import draft_counts
from app.domain.clustered import ratio_of_totals
from app.domain.condition import Condition
from app.domain.evidence import ExperimentEvidence
from app.domain.greedy_rates import excess
from app.domain.load import WorkloadRef
from app.domain.observation import RequestObservation
from app.domain.paired import bonferroni
from app.domain.pairing import CompleteBlocks, Pair
from app.domain.repetition import is_looping
from app.domain.scripts import dominant_script
from app.domain.startup_gates import without_request_counts
from app.domain.statistics import Estimate
from app.domain.vocabulary import Outcome

MARGIN: Final = 0.02
MAJORITY: Final = 0.5
UNIT: Final = "accepted tokens / draft"
BY_LENGTH: Final = "length"
"""vLLM's finish reason of an answer that its token limit ended."""


class Degeneration(StrEnum):
    """What is wrong with an answer whatever it says."""

    LOOPING = "looping"
    EMPTY = "empty"
    CUT_OFF = "cut off"
    """Ended by its token limit where the other arm's ended by itself."""
    OTHER_SCRIPT = "other script"
    """Written in another script than target-only's answers to the same prompt."""


class KindCount(BaseModel):
    """Prompts with one kind of degenerate answer, in most of the blocks that both arms answered."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Degeneration
    arm: int
    target: int


class DegenerateAnswers(BaseModel):
    """One arm on one workload over all loads, prompt by prompt beside target-only."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    arm: str
    workload: str
    prompts: int
    kinds: tuple[KindCount, ...]
    arm_only: int
    """Prompts whose answer is degenerate in this arm and not in target-only."""
    target_only: int
    excess: Estimate
    """Share of prompts by which the arm's answers are more often degenerate."""
    p_mcnemar: float | None
    """Exact and one-sided: that so many more of them are the arm's by chance."""
    margin: float
    is_worse: bool
    """More often than target-only by more than the margin, and not by chance."""
    looping: int
    """The arm's own answers that loop, over all blocks, of ``answers``."""
    answers: int
    length_excl: Estimate
    """Mean accepted length, of the answers counted here."""
    length_excl_looping: Estimate
    length_excl_others: Estimate
    loops_carry_it: bool
    """Without loops accepted lengths are shorter beyond doubt, or most accepted tokens are in loops."""


def degenerate_answers(evidence: ExperimentEvidence, blocks: CompleteBlocks) -> tuple[DegenerateAnswers, ...]:
    """Every candidate arm on every workload."""
    tested = len(evidence.manifest.candidates) * len(evidence.manifest.workloads)
    blind = {arm for _, arm in without_request_counts(evidence)}
    alpha = 1 - bonferroni(evidence.manifest.margins.confidence, tested)
    return tuple(
        _of_arm(evidence, blocks, workload, arm.name, alpha=alpha, told=arm.name not in blind)
        for arm in evidence.manifest.candidates
        for workload in evidence.manifest.workloads
    )


def broken_by(rows: Sequence[DegenerateAnswers], condition: Condition) -> Iterator[str]:
    """Why the condition's speed means nothing."""
    for row in rows:
        if (row.arm, row.workload) == (condition.arm, condition.workload) and row.is_worse:
            kinds = ", ".join(f"{k.arm} {k.kind} ({k.target} in target-only)" for k in row.kinds if k.arm or k.target)
            yield f"degenerate output: {kinds}, of {row.prompts} prompts"


def notes_on(rows: Sequence[DegenerateAnswers], condition: Condition) -> Iterator[str]:
    """What qualifies an accepted length."""
    for row in rows:
        if (row.arm, row.workload) == (condition.arm, condition.workload) and row.loops_carry_it:
            others = row.length_excl_others.value
            without = "no other answer had a draft" if others is None else f"{others:.2f} without them"
            yield (
                f"accepted lengths come from loops: {row.length_excl.value or 0:.2f} tokens per draft with the "
                f"{row.looping} of {row.answers} answers that repeat themselves, {without}"
            )


def _of_arm(
    evidence: ExperimentEvidence, blocks: CompleteBlocks, workload: WorkloadRef, arm: str, *, alpha: float, told: bool
) -> DegenerateAnswers:
    """``told``: whether this arm's responses carry speculation counts of their own."""
    conditions = [Condition(arm, workload.name, load.name) for load in evidence.manifest.loads]
    references = {r.request_id: r.reference for r in evidence.labels.get(workload.name, ())}
    pairs = [both for condition in conditions for pair in blocks.pairs(condition) for both in _served(pair)]
    looping = [(ours, _loops(ours, references)) for _, ours in pairs]
    prompts = _by_prompt(pairs, references)
    arm_only = sum(bool(ours) and not theirs for ours, theirs in prompts)
    target_only = sum(bool(theirs) and not ours for ours, theirs in prompts)
    margin = workload.degenerate_margin or MARGIN
    discordant = arm_only + target_only
    chance = stats.binomtest(arm_only, discordant, alternative="greater").pvalue if discordant else None
    found = excess(len(prompts), arm_only, target_only)
    lengths = _lengths(looping) if told else [block_acceptance.untold(UNIT, which) for which in _UNTOLD]
    return DegenerateAnswers(
        arm=arm,
        workload=workload.name,
        prompts=len(prompts),
        kinds=tuple(
            KindCount(kind=kind, arm=sum(kind in a for a, _ in prompts), target=sum(kind in t for _, t in prompts))
            for kind in Degeneration
        ),
        arm_only=arm_only,
        target_only=target_only,
        excess=found,
        p_mcnemar=None if chance is None else float(chance),
        margin=margin,
        is_worse=chance is not None and float(chance) < alpha and (arm_only - target_only) > margin * len(prompts),
        looping=sum(loops for _, loops in looping),
        answers=len(looping),
        length_excl=lengths[0],
        length_excl_looping=lengths[1],
        length_excl_others=lengths[2],
        loops_carry_it=_carried(looping, lengths),
    )


Kinds = frozenset[Degeneration]
Both = tuple[RequestObservation, RequestObservation]
"""Target-only's answer and the arm's."""


def _served(pair: Pair) -> Iterator[Both]:
    theirs = {o.request_id: o for o in pair.target.observations if o.outcome is Outcome.SUCCESS}
    for ours in pair.arm.observations:
        if ours.outcome is Outcome.SUCCESS and (target := theirs.get(ours.request_id)) is not None:
            yield target, ours


def _by_prompt(pairs: Sequence[Both], references: Mapping[str, str | None]) -> list[tuple[Kinds, Kinds]]:
    """The arm's and target-only's kinds of each prompt: those that most of its blocks show."""
    answers: dict[str, list[Both]] = defaultdict(list)
    for target, ours in pairs:
        answers[ours.request_id].append((target, ours))
    return [_of_prompt(answers[name], references) for name in sorted(answers)]


def _of_prompt(both: Sequence[Both], references: Mapping[str, str | None]) -> tuple[Kinds, Kinds]:
    script = dominant_script("\n".join(target.text for target, _ in both))
    ours = [_kinds(arm, target, script, references) for target, arm in both]
    theirs = [_kinds(target, arm, script, references) for target, arm in both]
    return _most(ours), _most(theirs)


def _most(blocks: Sequence[Kinds]) -> Kinds:
    return frozenset(kind for kind in Degeneration if sum(kind in found for found in blocks) > MAJORITY * len(blocks))


def _kinds(
    answer: RequestObservation, other: RequestObservation, script: str | None, references: Mapping[str, str | None]
) -> Kinds:
    own = dominant_script(answer.text)
    checks = {
        Degeneration.LOOPING: _loops(answer, references),
        Degeneration.EMPTY: not (answer.text.strip() or answer.tool_calls or answer.reasoning.strip()),
        Degeneration.CUT_OFF: answer.finish_reason == BY_LENGTH and other.finish_reason not in {BY_LENGTH, None},
        Degeneration.OTHER_SCRIPT: own is not None and script is not None and own != script,
    }
    return frozenset(kind for kind, found in checks.items() if found)


def _loops(answer: RequestObservation, references: Mapping[str, str | None]) -> bool:
    ended = answer.finish_reason != BY_LENGTH
    return is_looping(answer.token_ids, answer.text, ended=ended, reference=references.get(answer.request_id))


Looked = Sequence[tuple[RequestObservation, bool]]
"""Answers, and whether they loop."""


_UNTOLD: Final = (
    "the answers counted here from others",
    "answers that loop from others",
    "others from those that loop",
)
"""What its counters cannot tell apart: all, looping, others."""


def _lengths(looked: Looked) -> list[Estimate]:
    """Over all, over those that loop, over the others."""
    looping, others = ([answer for answer, loops in looked if loops is kept] for kept in (True, False))
    return [
        _length([answer for answer, _ in looked], "no answer of both arms"),
        _length(looping, "no answer loops"),
        _length(others, "every answer loops"),
    ]


def _length(answers: Sequence[RequestObservation], none: str) -> Estimate:
    above: dict[str, int] = defaultdict(int)
    below: dict[str, int] = defaultdict(int)
    longest = 1
    for answer in answers:
        counts = draft_counts(answer)
        above[answer.request_id] += counts.accepted
        below[answer.request_id] += counts.drafts
        longest = max(longest, *answer.speculation.per_step_drafted) if answer.speculation else longest
    accepted, drafts = ([totals[name] for name in sorted(totals)] for totals in (above, below))
    return ratio_of_totals(accepted, drafts, UNIT, most=longest, nothing="no drafts proposed" if answers else none)


def _carried(answers: Looked, lengths: Sequence[Estimate]) -> bool:
    whole, _, others = lengths
    accepted = sum(draft_counts(answer).accepted for answer, _ in answers)
    in_loops = sum(draft_counts(answer).accepted for answer, loops in answers if loops)
    if not in_loops or whole.value is None:
        return False
    if others.value is None:
        return True
    shorter = others.value < whole.value
    apart = others.high is not None and whole.low is not None and others.high < whole.low
    return shorter and (apart or in_loops > MAJORITY * accepted)
