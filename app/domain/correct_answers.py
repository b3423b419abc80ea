"""Application quality: how many answers are correct, and whether an arm's are fewer than target-only's.

Over complete answers of the declared sample. An arm that answers worse changes required behaviour, so that nothing
may be said about its speed on that workload.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from app.domain.clustered import ratio_of_totals
from app.domain.condition import Condition
from app.domain.evidence import ExperimentEvidence, RunEvidence
from app.domain.load import WorkloadRef
from app.domain.paired import bonferroni
from app.domain.paired_shares import SOURCE, Difference, Paired, difference
from app.domain.pairing import ALL, CompleteBlocks, baseline_of, strata_of
from app.domain.scored import is_correct
from app.domain.scoring.terms import Quality
from app.domain.statistics import Estimate, proportion
from app.domain.vocabulary import BASELINE_ARM

NOTHING = "no scored answer in a complete block"
UNPAIRED = "no prompt was answered and scored in both arms"


class QualityWord(StrEnum):
    """Whether an arm's answers are as often correct as target-only's."""

    EQUIVALENT = "EQUIVALENT"
    WORSE = "WORSE"
    BETTER = "BETTER"
    INCONCLUSIVE = "INCONCLUSIVE"


class CorrectAnswers(BaseModel):
    """One arm on one workload in one stratum, over all loads. Words are of ``all`` only; strata are exploratory."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    arm: str
    workload: str
    stratum: str
    scorer: str | None
    """Name and version of what scored the answers; ``None`` where any run of the arm was not scored."""
    scored: int
    """Answers, over all blocks."""
    right: int
    """Of them, the correct ones."""
    correct: Estimate
    """Share of scored answers; prompts carry the uncertainty."""
    difference: Estimate | None
    """Arm minus target-only over the prompts that both answered; ``None`` of target-only itself."""
    margin: float
    equivalence_low: float | None
    """Limits of the difference that decide on equivalence (two one-sided tests)."""
    equivalence_high: float | None
    word: QualityWord | None
    flaw: str | None
    """Why nothing may be concluded although a scorer is declared."""


def correct_answers(evidence: ExperimentEvidence, blocks: CompleteBlocks) -> tuple[CorrectAnswers, ...]:
    """Every arm, workload with a scorer, and stratum; nothing where no scorer is declared."""
    return tuple(
        row
        for workload in evidence.manifest.workloads
        if workload.quality is not None
        for arm in evidence.manifest.arms
        for row in _of_arm(evidence, blocks, workload, workload.quality, arm.name)
    )


def broken_by(rows: Sequence[CorrectAnswers], condition: Condition) -> Iterator[str]:
    """Why the condition's speed means nothing: its answers are worse, or were not judged although that was declared."""
    for row in rows:
        if (row.arm, row.workload, row.stratum) != (condition.arm, condition.workload, ALL):
            continue
        if row.flaw is not None:
            yield row.flaw
        if row.word is QualityWord.WORSE and row.difference is not None:
            yield f"answers are worse than target-only's: {_told(row.difference)}"


def notes_on(rows: Sequence[CorrectAnswers], condition: Condition) -> Iterator[str]:
    """What qualifies a word about speed."""
    for row in rows:
        here = (row.arm, row.workload, row.stratum) == (condition.arm, condition.workload, ALL)
        if here and row.word is QualityWord.INCONCLUSIVE and row.difference is not None:
            yield f"whether answers stay as correct is undecided: {_told(row.difference)}, margin {row.margin:.1%}"


def _told(found: Estimate) -> str:
    if found.value is None or found.low is None or found.high is None:
        return found.why or NOTHING
    points = f"{100 * found.value:+.1f} percentage points ({100 * found.low:+.1f} to {100 * found.high:+.1f})"
    return f"correct answers differ by {points} over {found.n} prompts"


def _of_arm(
    evidence: ExperimentEvidence, blocks: CompleteBlocks, workload: WorkloadRef, quality: Quality, arm: str
) -> Iterator[CorrectAnswers]:
    conditions = [Condition(arm, workload.name, load.name) for load in evidence.manifest.loads]
    runs = [run for condition in conditions for run in blocks.of(condition)]
    both = [run for condition in conditions for run in (*blocks.of(condition), *blocks.of(baseline_of(condition)))]
    flaw = _flaw(both)
    tested = sum(w.quality is not None for w in evidence.manifest.workloads) * len(evidence.manifest.candidates)
    confidence = bonferroni(evidence.manifest.margins.confidence, tested)
    for stratum, members in strata_of(evidence.labels.get(workload.name, ())).items():
        counts = _counts(runs, members, quality)
        own = CorrectAnswers(
            arm=arm,
            workload=workload.name,
            stratum=stratum,
            scorer=None if flaw else _versions(runs)[0] if runs else None,
            scored=sum(of for _, of in counts.values()),
            right=sum(right for right, _ in counts.values()),
            correct=_share(counts),
            difference=None,
            margin=quality.margin,
            equivalence_low=None,
            equivalence_high=None,
            word=None,
            flaw=flaw,
        )
        if arm == BASELINE_ARM:
            yield own
            continue
        pairs = [pair for condition in conditions for pair in blocks.pairs(condition)]
        found = difference(_paired([(p.arm, p.target) for p in pairs], members, quality))
        wide = confidence if stratum == ALL else evidence.manifest.margins.confidence
        yield _compared(own, found, wide, evidence.manifest.margins.confidence)


def _compared(own: CorrectAnswers, found: Difference | None, wide: float, confidence: float) -> CorrectAnswers:
    if found is None:
        nothing = Estimate(value=None, n=0, unit="share", source=SOURCE, why=UNPAIRED)
        return own.model_copy(update={"difference": nothing})
    limits, narrow = found.at(wide), found.at(2 * confidence - 1)
    told = Estimate(
        value=found.value,
        low=limits.low,
        high=limits.high,
        confidence=wide,
        n=int(found.sizes.size),
        unit="share",
        source=SOURCE,
    )
    word = None
    if own.stratum == ALL and own.flaw is None:
        if -own.margin < narrow.low and narrow.high < own.margin:
            word = QualityWord.EQUIVALENT
        elif limits.high < 0:
            word = QualityWord.WORSE
        else:
            word = QualityWord.BETTER if limits.low > 0 else QualityWord.INCONCLUSIVE
    return own.model_copy(
        update={"difference": told, "equivalence_low": narrow.low, "equivalence_high": narrow.high, "word": word}
    )


def _versions(runs: Sequence[RunEvidence]) -> list[str]:
    return sorted({run.scorer for run in runs if run.scorer is not None}) or [""]


def _flaw(runs: Sequence[RunEvidence]) -> str | None:
    """Runs without scores, or with those of two versions of a scorer."""
    without = sum(run.scorer is None for run in runs)
    if without:
        return f"answers of {without} of {len(runs)} runs were not scored, although a scorer is declared"
    versions = {version.partition(",")[0] for version in _versions(runs)}
    return f"answers were scored by several versions: {', '.join(sorted(versions))}" if len(versions) > 1 else None


Counts = dict[str, tuple[int, int]]
"""Prompt → correct answers, of how many."""


def _counts(runs: Sequence[RunEvidence], members: frozenset[str], quality: Quality) -> Counts:
    found: Counts = defaultdict(lambda: (0, 0))
    for run in runs:
        for name in run.scores.keys() & members:
            right, of = found[name]
            found[name] = (right + is_correct(run, name, quality), of + 1)
    return dict(sorted(found.items()))


def _share(counts: Counts) -> Estimate:
    right, of = [r for r, _ in counts.values()], [n for _, n in counts.values()]
    found = ratio_of_totals(right, of, "share", nothing=NOTHING)
    if found.value in {0.0, 1.0}:  # prompts that are all alike show no spread, and are no certainty
        return proportion(sum(map(bool, right)), len(right), "share", NOTHING)
    return found


def _paired(
    pairs: Sequence[tuple[RunEvidence, RunEvidence]], members: frozenset[str], quality: Quality
) -> list[Paired]:
    found: dict[str, Paired] = defaultdict(lambda: Paired(0, 0, 0))
    for arm, target in pairs:
        for name in arm.scores.keys() & target.scores.keys() & members:
            so_far = found[name]
            ours, theirs = is_correct(arm, name, quality), is_correct(target, name, quality)
            found[name] = Paired(so_far.arm + ours, so_far.target + theirs, so_far.of + 1)
    return [found[name] for name in sorted(found)]
