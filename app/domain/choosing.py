"""Which candidate is the first choice: over all conditions, or over those of one regime, by the same rule.

The fastest of the arms that help and hurt nowhere; an arm that is lighter, helps wherever that one helps, and is not
shown to be slower than it, takes its place. What still ties goes by the manifest's order.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from app.domain.as_deployed import AgainstDeployed, holds
from app.domain.burden import Burden
from app.domain.manifest import Arm, Manifest
from app.domain.paired import block_ratio, bonferroni
from app.domain.statistics import Estimate
from app.domain.verdict import Verdict
from app.domain.vocabulary import Regime, VerdictWord

Place = tuple[str, str]
"""Workload and load."""


class Case(NamedTuple):
    """What is known of one candidate before it is held against the others."""

    arm: Arm
    verdicts: tuple[Verdict, ...]
    ratios: Mapping[Place, Mapping[int, float]]
    """Place → block → log-ratio of the primary comparison."""
    burden: Burden
    deployed: tuple[AgainstDeployed, ...]
    invalid: bool
    """At any condition at all."""

    def within(self, regime: Regime) -> "Case":
        """The same, knowing only what was measured in that regime; what is INVALID anywhere stays so."""
        here = tuple(v for v in self.verdicts if v.regime is regime)
        places = {(v.workload, v.load) for v in here}
        return self._replace(
            verdicts=here,
            ratios={place: row for place, row in self.ratios.items() if place in places},
            deployed=tuple(one for one in self.deployed if one.regime is regime),
        )

    @property
    def helps(self) -> frozenset[Place]:
        return frozenset((v.workload, v.load) for v in self.verdicts if v.word is VerdictWord.HELPS)

    @property
    def words(self) -> frozenset[VerdictWord]:
        return frozenset(v.word for v in self.verdicts)

    @property
    def fit(self) -> bool:
        """It helps somewhere, hurts nowhere, and nothing makes it invalid."""
        return bool(self.helps) and VerdictWord.HURTS not in self.words and not self.invalid

    @property
    def eligible(self) -> bool:
        """Fit, and that also against target-only as it would be deployed."""
        return self.fit and holds(self.deployed)

    @property
    def merit(self) -> tuple[int, float]:
        """More conditions that it helps, then the larger geometric mean ratio."""
        ratios = [v.ratio.value for v in self.verdicts if v.ratio is not None and v.ratio.value]
        return len(self.helps), sum(map(math.log, ratios)) / len(ratios) if ratios else 0.0

    @property
    def by_block(self) -> dict[int, float]:
        """Block → mean over the conditions of its log-ratios; empty where they are not of the same blocks."""
        rows = [*self.ratios.values()]
        fit = len({tuple(row) for row in rows}) == 1
        return {block: float(np.mean([row[block] for row in rows])) for block in rows[0]} if fit else {}


def first_choice(manifest: Manifest, eligible: Sequence[Case]) -> Case | None:
    """The lightest of those that the fastest is not shown to beat."""
    fastest = max(eligible, key=lambda case: case.merit, default=None)
    if fastest is None:
        return None
    rivals = [
        case
        for case in eligible
        if case.helps >= fastest.helps and not is_slower(against(manifest, case, fastest, len(eligible) - 1))
    ]
    return min([fastest, *rivals], key=lambda case: case.burden.weight)


def first_of_regime(manifest: Manifest, cases: Sequence[Case], regime: Regime) -> str | None:
    """The first choice among what that regime alone shows; ``None``: target-only."""
    first = first_choice(manifest, [here for case in cases if (here := case.within(regime)).eligible])
    return None if first is None else first.arm.name


def against(manifest: Manifest, case: Case, other: Case, pairs: int) -> Estimate:
    """Its speed over the other's: both ratios of a block have the same target-only run, which cancels."""
    ours, theirs = case.by_block, other.by_block
    differences = [ours[block] - theirs[block] for block in ours] if ours.keys() == theirs.keys() else []
    return block_ratio(differences, bonferroni(manifest.margins.confidence, pairs))


def is_slower(found: Estimate) -> bool:
    """Shown to be; what cannot be told is taken for slower, so that it never wins by what is not known."""
    return found.high is None or found.high < 1
