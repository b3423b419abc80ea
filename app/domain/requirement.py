"""What a caller requires of a report, held against its words: what a CI job passes or fails by.

Only words decide, never a ratio across experiments. EXPIRED and INVALID never pass.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from app.domain.comparison import MetricComparison, family_size
from app.domain.errors import DomainError, FieldProblem
from app.domain.finding import BLOCKS_FOR_DECISION, find
from app.domain.pairing import ALL
from app.domain.report import Report
from app.domain.rests_on import PinChange, against_experiment
from app.domain.statistics import Estimate
from app.domain.verdict import Verdict
from app.domain.vocabulary import Purpose, Regime, VerdictWord

GATE_FORMAT: Final = "verdraft/gate/v0"


class Requirement(StrEnum):
    """What every verdict that is looked at must be."""

    HELPS = "HELPS"
    EQUIVALENT_OR_BETTER = "EQUIVALENT-or-better"
    NOT_HURTS = "not-HURTS"
    """The only one that an undecided verdict meets: no loss was shown, and none was excluded."""

    @property
    def words(self) -> frozenset[VerdictWord]:
        """The words that meet it."""
        return _MEETS[self]


_H, _E, _I = VerdictWord.HELPS, VerdictWord.EQUIVALENT, VerdictWord.INCONCLUSIVE
_MEETS: Final = {
    Requirement.HELPS: frozenset({_H}),
    Requirement.EQUIVALENT_OR_BETTER: frozenset({_H, _E}),
    Requirement.NOT_HURTS: frozenset({_H, _E, _I}),
}


class NoVerdict(DomainError):
    """Blocks are missing, so nothing can be required of the answer."""

    title = "There is no verdict"


class Unknown(DomainError):
    """The choice names something that the experiment does not have."""

    title = "The choice does not fit the experiment"


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Choice(_Frozen):
    """Which verdicts are looked at; what is ``None`` is not narrowed."""

    arm: str | None = None
    workload: str | None = None
    stratum: str | None = None
    load: str | None = None
    regime: Regime | None = None

    def keeps(self, verdict: Verdict) -> bool:
        """Whether the verdict belongs to it."""
        wanted = (
            (self.arm, verdict.arm),
            (self.workload, verdict.workload),
            (self.load, verdict.load),
            (self.regime, verdict.regime),
        )
        return all(asked is None or asked == found for asked, found in wanted)


class Line(_Frozen):
    """One verdict and whether it is enough. ``ratio`` is against the arm's own target-only."""

    arm: str
    workload: str
    load: str
    stratum: str
    word: VerdictWord
    exploratory: bool
    ratio: Estimate | None
    met: bool
    why: str
    baseline_word: VerdictWord | None = None
    """What the baseline experiment says of the same arm, workload, load and stratum; null where it says nothing."""

    @property
    def changed(self) -> bool:
        """Whether the baseline says another word."""
        return self.baseline_word is not None and self.baseline_word is not self.word


class Baseline(_Frozen):
    """An earlier experiment that words are set beside; no ratio is taken across the two."""

    experiment: str
    name: str
    pins: tuple[PinChange, ...]
    """Those that differ: ``was`` there, ``now`` here."""
    sentence: str


class GateResult(_Frozen):
    """Whether the requirement is met, and by what."""

    format: str = GATE_FORMAT
    experiment: str
    name: str
    require: Requirement
    met: bool
    exit_code: int = Field(description="0 met, 3 not met.")
    sentence: str
    reasons: tuple[str, ...]
    """Why the whole of it cannot pass, whatever the words are."""
    lines: tuple[Line, ...]
    against: Baseline | None = None


EXIT_MET: Final = 0
EXIT_NOT_MET: Final = 3


def judge_requirement(
    report: Report, require: Requirement, choice: Choice, *, exploratory: bool = False, against: Report | None = None
) -> GateResult:
    """Hold the report to ``require``. ``exploratory``: whether words marked so may pass.

    Raises ``NoVerdict`` while blocks are missing, and ``Unknown`` for a choice that selects nothing.
    """
    if report.interim:
        done = f"{report.blocks_complete} of {report.blocks_planned} blocks are complete"
        raise NoVerdict.of("experiment", f"{done}, so there is no verdict", "wait for the last block: --wait does")
    _check(report, choice)
    lines = tuple(
        _judged(report, verdict, choice.stratum or ALL, require, exploratory=exploratory)
        for verdict in _chosen(report, choice)
    )
    if against is not None:
        lines = tuple(_beside(line, against) for line in lines)
    reasons = tuple(_reasons(report))
    met = not reasons and all(line.met for line in lines)
    return GateResult(
        experiment=report.experiment,
        name=report.name,
        require=require,
        met=met,
        exit_code=EXIT_MET if met else EXIT_NOT_MET,
        sentence=_sentence(require, lines, reasons),
        reasons=reasons,
        lines=lines,
        against=None if against is None else _baseline(report, against, lines),
    )


def _check(report: Report, choice: Choice) -> None:
    manifest = report.manifest
    strata = [s for workload, found in report.strata.items() if choice.workload in {None, workload} for s in found]
    known = {
        "--arm": (choice.arm, [arm.name for arm in manifest.candidates]),
        "--workload": (choice.workload, [w.name for w in manifest.workloads]),
        "--stratum": (choice.stratum, list(dict.fromkeys(strata))),
        "--load": (choice.load, [load.name for load in manifest.loads]),
        "--regime": (choice.regime, list(dict.fromkeys(load.regime for load in manifest.loads))),
    }
    wrong = [
        FieldProblem(option, f"{asked} is not in {report.name}", f"choose one of {', '.join(have)}")
        for option, (asked, have) in known.items()
        if asked is not None and asked not in have
    ]
    if wrong:
        raise Unknown(*wrong)
    if not _chosen(report, choice):
        raise Unknown.of("--arm, --workload, --load, --regime", "no verdict is all of these", "leave one of them out")


def _chosen(report: Report, choice: Choice) -> tuple[Verdict, ...]:
    """Without an arm by name, those that the experiment decides on; with a stratum, the workloads that have it."""
    decided = {arm.name for arm in report.manifest.decided}
    return tuple(
        v
        for v in report.verdicts
        if choice.keeps(v)
        and (choice.arm is not None or v.arm in decided)
        and (choice.stratum is None or choice.stratum in report.strata[v.workload])
    )


def _reasons(report: Report) -> Iterator[str]:
    if report.expired and report.expiry is not None:
        yield report.expiry.sentence
    if report.manifest.purpose is not Purpose.VERDICT:
        yield f"its purpose is {report.manifest.purpose}: its words claim nothing about an arm"


def _judged(report: Report, verdict: Verdict, stratum: str, require: Requirement, *, exploratory: bool) -> Line:
    word, marked, ratio = verdict.word, verdict.exploratory, verdict.ratio
    if stratum != ALL and word is not VerdictWord.INVALID:
        found = _of_stratum(report, verdict, stratum)
        ratio = None if found is None else found.ratio
        word = _word(report, found)
        marked = marked or found is None or len(found.block_ratios) < BLOCKS_FOR_DECISION
    met = word in require.words and (exploratory or not marked)
    return Line(
        arm=verdict.arm,
        workload=verdict.workload,
        load=verdict.load,
        stratum=stratum,
        word=word,
        exploratory=marked,
        ratio=ratio,
        met=met,
        why=_why(verdict, word, stratum, require, met=met),
    )


def _of_stratum(report: Report, verdict: Verdict, stratum: str) -> MetricComparison | None:
    """By the metric that decides the whole condition."""
    place = (verdict.arm, verdict.workload, verdict.load, stratum, verdict.metric)
    return next((c for c in report.comparisons if (c.arm, c.workload, c.load, c.stratum, c.metric) == place), None)


def _word(report: Report, found: MetricComparison | None) -> VerdictWord:
    """The error is shared with every stratum that could have been asked for, so that picking one gains nothing."""
    if found is None:
        return VerdictWord.INCONCLUSIVE
    manifest = report.manifest
    confidence = report.confidence or manifest.margins.confidence
    family = family_size(manifest) * max(len(report.strata[found.workload]), 1)
    return find(found.log_ratios, delta=manifest.margins.delta, confidence=confidence, family=family).word


def _why(verdict: Verdict, word: VerdictWord, stratum: str, require: Requirement, *, met: bool) -> str:
    if met and word is not VerdictWord.INCONCLUSIVE:
        return f"{word} meets {require}"
    if met:
        return f"undecided: no loss was shown and none was excluded, which {require} accepts"
    if word is VerdictWord.INVALID:
        return f"INVALID never passes: {next(iter(verdict.reasons), verdict.sentence)}"
    if word in require.words:
        return f"{word} is exploratory, and no decision may rest on it; --exploratory accepts it"
    if word is VerdictWord.INCONCLUSIVE and stratum == ALL and verdict.blocks_needed:
        return f"undecided: about {verdict.blocks_needed} blocks are needed"
    return f"{word} does not meet {require}"


def _sentence(require: Requirement, lines: tuple[Line, ...], reasons: tuple[str, ...]) -> str:
    if reasons:
        return f"Not met: {reasons[0]}"
    failed = [line for line in lines if not line.met]
    if failed:
        return f"Not met: {len(failed)} of {len(lines)} verdicts do not meet {require}."
    return f"Met: {len(lines)} of {len(lines)} verdicts meet {require}."


def _beside(line: Line, against: Report) -> Line:
    place = (line.arm, line.workload, line.load)
    verdict = next((v for v in against.verdicts if (v.arm, v.workload, v.load) == place), None)
    if verdict is None or line.stratum not in against.strata[verdict.workload]:
        return line
    other = _judged(against, verdict, line.stratum, Requirement.HELPS, exploratory=True)
    return line.model_copy(update={"baseline_word": other.word})


def _baseline(report: Report, against: Report, lines: tuple[Line, ...]) -> Baseline:
    held = against_experiment(against.manifest, report.manifest, against.analysis_version, report.analysis_version)
    changed, unknown = sum(line.changed for line in lines), sum(line.baseline_word is None for line in lines)
    said = f"{changed} of {len(lines)} words differ from {against.name} ({against.experiment[:12]})"
    missing = f"; {unknown} are not there" if unknown else ""
    interim = ", which has blocks missing" if against.interim else ""
    caution = "Each ratio is against its own target-only: two experiments are never divided by each other."
    return Baseline(
        experiment=against.experiment,
        name=against.name,
        pins=held.changes,
        sentence=f"{said}{interim}{missing}. {len(held.changes)} pins differ. {caution}",
    )
