"""How often greedy answers agree, and whether an arm's differ more often than target-only's differ from themselves.

The prompt is the unit: its repeats in other blocks are no further prompts.
"""

from typing import Final

from pydantic import BaseModel, ConfigDict
from scipy import stats

from app.domain.greedy_tables import GreedyMode, Tally
from app.domain.statistics import CONFIDENCE, Estimate, proportion

EXCESS_MARGIN: Final = 0.05
"""The declared share by which an arm's answers may differ more often than target-only's own (method A15)."""
_NOT_COMPARED: Final = "no prompt was answered by both in this way"
_NO_CONTROL: Final = "target-only answered in one process only, so there is no control"


class MatchRate(BaseModel):
    """Agreement of an arm with target-only in one mode, and of target-only with itself in a second process."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: GreedyMode
    prompts: int
    differing: int
    match_rate: Estimate
    control_prompts: int
    control_differing: int
    excess: Estimate
    """Share of differing prompts above the control's; each limit is one-sided."""
    processes: int
    """Fresh processes of each arm in which it was looked at: one does not show what a restart changes."""

    @property
    def is_excessive(self) -> bool:
        """Whether the excess is above the margin for certain, at the one-sided confidence."""
        return self.excess.low is not None and self.excess.low > EXCESS_MARGIN


def match_rate(mode: GreedyMode, tally: Tally) -> MatchRate:
    """The shares of one mode."""
    return MatchRate(
        mode=mode,
        prompts=tally.prompts,
        differing=tally.differing,
        match_rate=proportion(tally.prompts - tally.differing, tally.prompts, "share", _NOT_COMPARED),
        control_prompts=tally.control_prompts,
        control_differing=tally.control_differing,
        excess=excess(tally.paired, tally.arm_only, tally.control_only),
        processes=len(tally.blocks),
    )


def excess(paired: int, arm_only: int, control_only: int, confidence: float = CONFIDENCE) -> Estimate:
    """``(arm_only - control_only) / paired`` with exact one-sided limits.

    Prompts on which both differ, or neither, cancel. Each limit is the difference of two Clopper-Pearson limits at half
    the error each (Bonferroni), so it holds at any number of prompts.
    """
    source = "paired excess of differing prompts, exact one-sided limits (method A15)"
    if paired == 0:
        return Estimate(value=None, n=0, unit="share", source=source, why=_NO_CONTROL)
    two_sided = confidence  # half of the error to each side of each share
    ours = stats.binomtest(arm_only, paired).proportion_ci(confidence_level=two_sided, method="exact")
    control = stats.binomtest(control_only, paired).proportion_ci(confidence_level=two_sided, method="exact")
    return Estimate(
        value=(arm_only - control_only) / paired,
        low=float(ours.low - control.high),
        high=float(ours.high - control.low),
        confidence=confidence,
        n=paired,
        unit="share",
        source=source,
    )


def defect_share(defects: int, looked_at: int, confidence: float = CONFIDENCE) -> Estimate:
    """The share of defects among diagnosed prompts with its upper limit, one-sided."""
    source = "share of defects among the diagnosed, Clopper-Pearson upper limit, one-sided (method A15)"
    if looked_at == 0:
        return Estimate(value=None, n=0, unit="share", source=source, why="nothing was diagnosed")
    test = stats.binomtest(defects, looked_at, alternative="less")
    limits = test.proportion_ci(confidence_level=confidence, method="exact")
    return Estimate(
        value=defects / looked_at,
        low=0.0,
        high=float(limits.high),
        confidence=confidence,
        n=looked_at,
        unit="share",
        source=source,
    )
