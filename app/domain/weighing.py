"""Every candidate weighed: where it helps and hurts, what it costs beside speed, and how it stands to the others.

``choosing`` has the rule by which one of them is the first choice.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from app.domain.as_deployed import AgainstDeployed, against_deployed, said
from app.domain.burden import Burden
from app.domain.choosing import Case, against, first_choice, first_of_regime, is_slower
from app.domain.comparison import MetricComparison, by_block
from app.domain.deployment import serve_command
from app.domain.finding import find
from app.domain.manifest import Arm, Manifest
from app.domain.pairing import ALL, CompleteBlocks
from app.domain.statistics import Estimate
from app.domain.verdict import Verdict
from app.domain.verdict_words import WordAt, told
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
    BEHIND_DEPLOYED = "not right against target-only as it would be deployed"
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
    blocks_needed: int | None = None
    """About so many blocks would decide it; ``None`` where it is decided, or no affordable number would."""


class Weighed(_Frozen):
    """One candidate, all things considered."""

    arm: str
    standing: Standing
    words: tuple[PlaceWord, ...]
    burden: Burden
    against_first: Estimate | None
    """Its speed over the first choice's, over all decided conditions; ``None`` for what is not held against it."""
    against_deployed: tuple[AgainstDeployed, ...] = ()
    """Condition by condition, where target-only was also measured as it would be deployed; decided arms alone."""
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


class Weighing(NamedTuple):
    """All candidates in the manifest's order, and what would be right for each regime by itself."""

    arms: tuple[Weighed, ...]
    by_regime: Mapping[Regime, str | None]
    """``None``: target-only."""


def weigh(
    manifest: Manifest,
    verdicts: Sequence[Verdict],
    comparisons: Sequence[MetricComparison],
    burdens: Mapping[str, Burden],
    blocks: CompleteBlocks,
) -> Weighing:
    """Every candidate."""
    own = {arm.name: [c for c in comparisons if c.arm == arm.name] for arm in manifest.candidates}
    held = against_deployed(manifest, verdicts, comparisons, blocks)
    cases = tuple(
        _case(arm, verdicts, own[arm.name], blocks, carried=burdens[arm.name], deployed=held.get(arm.name, ()))
        for arm in manifest.candidates
    )
    decided = [case for case in cases if case.arm.name in held]
    eligible = [case for case in decided if case.eligible]
    first, pairs = first_choice(manifest, eligible), len(eligible) - 1
    return Weighing(
        arms=tuple(
            _weighed(manifest, case, first, own[case.arm.name], is_decided=case.arm.name in held, pairs=pairs)
            for case in cases
        ),
        by_regime={regime: first_of_regime(manifest, decided, regime) for regime in Regime},
    )


def _case(
    arm: Arm,
    verdicts: Sequence[Verdict],
    comparisons: Sequence[MetricComparison],
    blocks: CompleteBlocks,
    *,
    carried: Burden,
    deployed: tuple[AgainstDeployed, ...],
) -> Case:
    own = tuple(v for v in verdicts if v.arm == arm.name)
    return Case(
        arm=arm,
        verdicts=own,
        ratios={(c.workload, c.load): by_block(c, blocks) for c in comparisons if c.primary},
        burden=carried,
        deployed=deployed,
        invalid=any(v.word is VerdictWord.INVALID for v in own),
    )


def _weighed(
    manifest: Manifest,
    case: Case,
    first: Case | None,
    comparisons: Sequence[MetricComparison],
    *,
    is_decided: bool,
    pairs: int,
) -> Weighed:
    is_first = first is not None and case.arm.name == first.arm.name
    held = None if first is None or is_first or not case.eligible else against(manifest, case, first, pairs)
    standing = Standing.FIRST if is_first else _standing(case, first, held, is_decided=is_decided)
    words = tuple(_words(manifest, case, comparisons))
    deployed = f"; {said(case.deployed)}" if case.deployed else ""
    return Weighed(
        arm=case.arm.name,
        standing=standing,
        words=words,
        burden=case.burden,
        against_first=held,
        against_deployed=case.deployed,
        command="" if case.invalid else serve_command(manifest, case.arm),
        sentence=f"{case.arm.name}: {standing}{_measured_against(first, held)}. It {_said(words)}{deployed}. It costs: "
        f"{case.burden.sentence}.",
    )


def _standing(case: Case, first: Case | None, held: Estimate | None, *, is_decided: bool) -> Standing:
    if not is_decided:
        return Standing.AS_DEPLOYED if case.arm.as_deployed else Standing.EXPLORATORY
    if first is None or held is None:
        return _not_eligible(case)
    return _beside_first(case, first, held)


def _not_eligible(case: Case) -> Standing:
    if case.invalid:
        return Standing.INVALID
    if VerdictWord.HURTS in case.words:
        return Standing.MIXED if case.helps else Standing.HURTS
    return Standing.BEHIND_DEPLOYED if case.fit else Standing.NOT_SHOWN


def _beside_first(case: Case, first: Case, held: Estimate) -> Standing:
    if not case.helps >= first.helps:
        return Standing.FEWER
    if held.high is None:
        return Standing.NOT_COMPARED
    return Standing.BEATEN if is_slower(held) else Standing.TIED


def _words(manifest: Manifest, case: Case, comparisons: Sequence[MetricComparison]) -> Iterator[PlaceWord]:
    """The verdicts', and beside each its strata's by the same metric."""
    margins = manifest.margins
    rows: dict[tuple[str, str, str], list[MetricComparison]] = {}
    for c in comparisons:
        rows.setdefault((c.workload, c.load, c.metric), []).append(c)
    for verdict in case.verdicts:
        for c in rows.get((verdict.workload, verdict.load, verdict.metric), ()):
            found = find(c.log_ratios, delta=margins.delta, confidence=margins.confidence, family=1)
            decided = c.stratum == ALL or verdict.word is VerdictWord.INVALID
            yield PlaceWord(
                workload=c.workload,
                stratum=c.stratum,
                load=c.load,
                regime=verdict.regime,
                word=verdict.word if decided else found.word,
                blocks_needed=verdict.blocks_needed if decided else found.blocks_needed,
            )


def _measured_against(first: Case | None, held: Estimate | None) -> str:
    if first is None or held is None or held.value is None or held.low is None:
        return ""
    return f" ({held.value:.3f} [{held.low:.3f}, {held.high:.3f}] times the speed of {first.arm.name})"


def _said(words: Sequence[PlaceWord]) -> str:
    found = [told(WordAt(w.word, w.workload, w.load) for w in words if w.stratum == ALL) or "was not measured"]
    hurt = [
        f"{w.stratum} of {w.workload} at {w.load}" for w in words if w.stratum != ALL and w.word is VerdictWord.HURTS
    ]
    if hurt:
        found.append(f"it seems to hurt {', '.join(hurt)} (exploratory)")
    return "; ".join(found)
