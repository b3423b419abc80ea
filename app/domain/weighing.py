"""Every candidate weighed: where it helps and hurts, what it costs beside speed, and how it stands to the others.

The fastest of the arms that help and hurt nowhere is the first choice. An arm that is lighter, helps wherever the
first choice helps, and is not shown to be slower than it, takes its place.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict

from app.domain.burden import Burden
from app.domain.comparison import MetricComparison, by_block
from app.domain.deployment import serve_command
from app.domain.finding import find
from app.domain.manifest import Arm, Manifest
from app.domain.paired import block_ratio, bonferroni
from app.domain.pairing import ALL, CompleteBlocks
from app.domain.statistics import Estimate
from app.domain.verdict import Verdict
from app.domain.vocabulary import Regime, VerdictWord


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Standing(StrEnum):
    """How a candidate comes out; each says why it is or is not the answer."""

    FIRST = "first choice"
    TIED = "as fast, and heavier"
    BEATEN = "slower than the first choice"
    NOT_COMPARED = "not comparable with the first choice block by block"
    FEWER = "helps at fewer conditions"
    MIXED = "helps here, hurts there"
    HURTS = "hurts and helps nowhere"
    NOT_SHOWN = "not shown to help"
    INVALID = "invalid"
    AS_DEPLOYED = "target-only as it would be deployed"
    EXPLORATORY = "outside the declared family"


class PlaceWord(_Frozen):
    """The word of one stratum at one load; only the words of ``all`` are decided, strata are exploratory."""

    workload: str
    stratum: str
    load: str
    regime: Regime
    word: VerdictWord


class Weighed(_Frozen):
    """One candidate, all things considered."""

    arm: str
    standing: Standing
    words: tuple[PlaceWord, ...]
    burden: Burden
    against_first: Estimate | None
    """Its speed over the first choice's, over all decided conditions; ``None`` for the first choice and without one."""
    command: str
    """As it was measured; empty for an invalid arm."""
    sentence: str

    def at(self, *words: VerdictWord) -> tuple[PlaceWord, ...]:
        """Where it has one of these words over all strata."""
        return tuple(w for w in self.words if w.stratum == ALL and w.word in words)

    @property
    def strata_hurt(self) -> tuple[PlaceWord, ...]:
        """Strata in which it seems to hurt: exploratory."""
        return tuple(w for w in self.words if w.stratum != ALL and w.word is VerdictWord.HURTS)


class _Case(NamedTuple):
    """What is known of one candidate before it is held against the others."""

    arm: Arm
    verdicts: tuple[Verdict, ...]
    by_block: Mapping[int, float]
    """Block → mean over conditions of its log-ratios; empty where they are not of the same blocks."""
    burden: Burden

    @property
    def helps(self) -> frozenset[tuple[str, str]]:
        return frozenset((v.workload, v.load) for v in self.verdicts if v.word is VerdictWord.HELPS)

    @property
    def words(self) -> frozenset[VerdictWord]:
        return frozenset(v.word for v in self.verdicts)

    @property
    def eligible(self) -> bool:
        return bool(self.helps) and self.words.isdisjoint({VerdictWord.HURTS, VerdictWord.INVALID})

    @property
    def merit(self) -> tuple[int, float]:
        """More conditions that it helps, then the larger geometric mean ratio."""
        ratios = [v.ratio.value for v in self.verdicts if v.ratio is not None and v.ratio.value]
        return len(self.helps), sum(map(math.log, ratios)) / len(ratios) if ratios else 0.0


def weigh(
    manifest: Manifest,
    verdicts: Sequence[Verdict],
    comparisons: Sequence[MetricComparison],
    burdens: Mapping[str, Burden],
    blocks: CompleteBlocks,
) -> tuple[Weighed, ...]:
    """Every candidate, in the manifest's order."""
    own = {arm.name: [c for c in comparisons if c.arm == arm.name] for arm in manifest.candidates}
    cases = tuple(_case(arm, verdicts, own[arm.name], burdens[arm.name], blocks) for arm in manifest.candidates)
    decided = {arm.name for arm in manifest.decided}
    eligible = [case for case in cases if case.arm.name in decided and case.eligible]
    first, pairs = _first(manifest, eligible), len(eligible) - 1
    return tuple(
        _weighed(manifest, case, first, own[case.arm.name], is_decided=case.arm.name in decided, pairs=pairs)
        for case in cases
    )


def _case(
    arm: Arm,
    verdicts: Sequence[Verdict],
    comparisons: Sequence[MetricComparison],
    carried: Burden,
    blocks: CompleteBlocks,
) -> _Case:
    rows = [by_block(c, blocks) for c in comparisons if c.primary]
    fit = len({tuple(row) for row in rows}) == 1
    return _Case(
        arm=arm,
        verdicts=tuple(v for v in verdicts if v.arm == arm.name),
        by_block={block: float(np.mean([row[block] for row in rows])) for block in rows[0]} if fit else {},
        burden=carried,
    )


def _first(manifest: Manifest, eligible: Sequence[_Case]) -> _Case | None:
    """The lightest of those that the fastest is not shown to beat."""
    fastest = max(eligible, key=lambda case: case.merit, default=None)
    if fastest is None:
        return None
    rivals = [
        case
        for case in eligible
        if case.helps >= fastest.helps and not _slower(_against(manifest, case, fastest, len(eligible) - 1))
    ]
    return min([fastest, *rivals], key=lambda case: case.burden.weight)


def _against(manifest: Manifest, case: _Case, other: _Case, pairs: int) -> Estimate:
    """Its speed over the other's: both ratios of a block have the same target-only run, which cancels."""
    known = case.by_block.keys() == other.by_block.keys()
    differences = [ours - other.by_block[block] for block, ours in case.by_block.items()] if known else []
    return block_ratio(differences, bonferroni(manifest.margins.confidence, pairs))


def _slower(against: Estimate) -> bool:
    """Shown to be; what cannot be told is taken for slower, so that it never wins by what is not known."""
    return against.high is None or against.high < 1


def _weighed(
    manifest: Manifest,
    case: _Case,
    first: _Case | None,
    comparisons: Sequence[MetricComparison],
    *,
    is_decided: bool,
    pairs: int,
) -> Weighed:
    is_first = first is not None and case.arm.name == first.arm.name
    # A broken measurement of what is deployed shows nothing to be faster than it.
    rival = case.eligible or (case.arm.as_deployed and VerdictWord.INVALID not in case.words)
    against = None if first is None or is_first or not rival else _against(manifest, case, first, pairs)
    standing = Standing.FIRST if is_first else _standing(case, first, against, is_decided=is_decided)
    words = tuple(_words(manifest, case, comparisons))
    return Weighed(
        arm=case.arm.name,
        standing=standing,
        words=words,
        burden=case.burden,
        against_first=against,
        command="" if VerdictWord.INVALID in case.words else serve_command(manifest, case.arm),
        sentence=f"{case.arm.name}: {standing}{_measured_against(first, against)}. {_said(words)}. It costs: "
        f"{case.burden.sentence}.",
    )


def _standing(case: _Case, first: _Case | None, against: Estimate | None, *, is_decided: bool) -> Standing:
    if not is_decided:
        return Standing.AS_DEPLOYED if case.arm.as_deployed else Standing.EXPLORATORY
    if VerdictWord.INVALID in case.words:
        return Standing.INVALID
    if VerdictWord.HURTS in case.words:
        return Standing.MIXED if case.helps else Standing.HURTS
    if first is None or against is None:
        return Standing.NOT_SHOWN
    if not case.helps >= first.helps:
        return Standing.FEWER
    return _speed_against_first(against)


def _speed_against_first(against: Estimate) -> Standing:
    if against.high is None:
        return Standing.NOT_COMPARED
    return Standing.BEATEN if _slower(against) else Standing.TIED


def _words(manifest: Manifest, case: _Case, comparisons: Sequence[MetricComparison]) -> Iterator[PlaceWord]:
    """The verdicts', and beside each its strata's by the same metric."""
    margins = manifest.margins
    told: dict[tuple[str, str, str], list[MetricComparison]] = {}
    for c in comparisons:
        told.setdefault((c.workload, c.load, c.metric), []).append(c)
    for verdict in case.verdicts:
        for c in told.get((verdict.workload, verdict.load, verdict.metric), ()):
            found = find(c.log_ratios, delta=margins.delta, confidence=margins.confidence, family=1).word
            decided = c.stratum == ALL or verdict.word is VerdictWord.INVALID
            yield PlaceWord(
                workload=c.workload,
                stratum=c.stratum,
                load=c.load,
                regime=verdict.regime,
                word=verdict.word if decided else found,
            )


def _measured_against(first: _Case | None, against: Estimate | None) -> str:
    if first is None or against is None or against.value is None or against.low is None:
        return ""
    return f" ({against.value:.3f} [{against.low:.3f}, {against.high:.3f}] times the speed of {first.arm.name})"


def _said(words: Sequence[PlaceWord]) -> str:
    whole = [w for w in words if w.stratum == ALL]
    told = [
        f"{word} on {', '.join(f'{w.workload} at {w.load}' for w in whole if w.word is word)}"
        for word in VerdictWord
        if any(w.word is word for w in whole)
    ]
    hurt = [
        f"{w.stratum} of {w.workload} at {w.load}" for w in words if w.stratum != ALL and w.word is VerdictWord.HURTS
    ]
    if hurt:
        told.append(f"it seems to hurt {', '.join(hurt)} (exploratory)")
    return "; ".join(told) or "nothing was measured"
