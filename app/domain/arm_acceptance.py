"""An arm's acceptance with its intervals: from its requests where they carry counts, else from counters."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from app.domain import block_acceptance
from app.domain.acceptance import (
    PositionAcceptance,
    by_position,
    decode_steps,
    draft_counts,
    emitted_after_first,
    position_counts,
)
from app.domain.clustered import ratio_of_totals
from app.domain.evidence import RunEvidence
from app.domain.observation import RequestObservation
from app.domain.paired import bonferroni
from app.domain.pairing import ALL
from app.domain.statistics import CONFIDENCE, Estimate

RATE_UNIT = "accepted tokens / drafted token"
EXCL_UNIT = "accepted tokens / draft"
INCL_UNIT = "tokens / draft, with the target's own"
EMIT_UNIT = "emitted tokens / target step"
BAND_UNIT = "steps accepting it / drafts"
CONDITIONAL_UNIT = "steps accepting it / steps that drafted it after an accepted prefix"

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What was accepted, however it is known; the bands hold together over all positions."""

    rate: Estimate
    excl: Estimate
    incl: Estimate
    emit: Estimate
    positions: PositionAcceptance
    band: tuple[Estimate, ...] = ()
    conditional_band: tuple[Estimate, ...] = ()


def by_requests(offered: Sequence[RequestObservation], served: Sequence[RequestObservation]) -> Acceptance:
    """Clustered by request: the blocks repeat each prompt, so a request id is one cluster over all of them."""
    longest = max((max(o.speculation.per_step_drafted, default=0) for o in offered if o.speculation), default=0)
    counted = _clusters(offered, lambda o: position_counts(o.speculation, longest))
    # Every target step emits its own token, so only what lies above one is bounded by the draft.
    return Acceptance(
        rate=_ratio(offered, _accepted, _drafted, RATE_UNIT),
        excl=_ratio(offered, _accepted, _drafts, EXCL_UNIT, most=longest),
        incl=_ratio(offered, _accepted, _drafts, INCL_UNIT, most=longest, shift=1.0),
        emit=_ratio(served, _above_one, decode_steps, EMIT_UNIT, most=longest, shift=1.0, nothing="no decode step"),
        positions=by_position([o.speculation for o in offered if o.speculation is not None]),
        band=_band(counted, lambda at, position: (at[0, position], at[2, 0]), BAND_UNIT),
        conditional_band=_band(counted, lambda at, position: (at[0, position], at[1, position]), CONDITIONAL_UNIT),
    )


def by_counters(runs: Sequence[RunEvidence], stratum: str) -> Acceptance:
    """From the engine's counters, which know all strata together and no decode step without a draft."""
    steps = block_acceptance.untold(EMIT_UNIT, "steps without a draft")
    if stratum != ALL:
        rate, excl, incl = (block_acceptance.untold(u, "strata apart") for u in (RATE_UNIT, EXCL_UNIT, INCL_UNIT))
        return Acceptance(rate, excl, incl, steps, PositionAcceptance((), ()))
    return Acceptance(
        rate=block_acceptance.acceptance_rate(runs, RATE_UNIT),
        excl=block_acceptance.length_excl(runs, EXCL_UNIT),
        incl=block_acceptance.length_incl(runs, INCL_UNIT),
        emit=steps,
        positions=block_acceptance.by_position(runs),
    )


def _clusters(
    observations: Sequence[RequestObservation], count: Callable[[RequestObservation], Counts]
) -> tuple[Counts, ...]:
    """Summed over the blocks, in a fixed order."""
    found: dict[str, Counts] = {}
    for o in observations:
        found[o.request_id] = found[o.request_id] + count(o) if o.request_id in found else count(o)
    return tuple(found[name] for name in sorted(found))


def _band(counted: Sequence[Counts], part: Callable[[Counts, int], tuple[int, int]], unit: str) -> tuple[Estimate, ...]:
    """One interval a position, so wide that all of them hold together (method A2, Bonferroni)."""
    positions = counted[0].shape[1] if counted else 0
    together = bonferroni(CONFIDENCE, positions)
    parts = [[part(at, position) for at in counted] for position in range(positions)]
    return tuple(
        ratio_of_totals(
            [int(hits) for hits, _ in at],
            [int(chances) for _, chances in at],
            unit,
            nothing="nothing was drafted there",
            confidence=together,
        )
        for at in parts
    )


def _ratio(
    observations: Sequence[RequestObservation],
    numerator: Callable[[RequestObservation], int],
    denominator: Callable[[RequestObservation], int],
    unit: str,
    *,
    most: float = 1.0,
    shift: float = 0.0,
    nothing: str = "no drafts proposed",
) -> Estimate:
    above: dict[str, int] = defaultdict(int)
    below: dict[str, int] = defaultdict(int)
    for o in observations:
        above[o.request_id] += numerator(o)
        below[o.request_id] += denominator(o)
    ids = sorted(above)
    return ratio_of_totals(
        [above[i] for i in ids], [below[i] for i in ids], unit, most=most or 1.0, shift=shift, nothing=nothing
    )


def _accepted(observation: RequestObservation) -> int:
    return draft_counts(observation).accepted


def _drafted(observation: RequestObservation) -> int:
    return draft_counts(observation).drafted


def _drafts(observation: RequestObservation) -> int:
    return draft_counts(observation).drafts


def _above_one(observation: RequestObservation) -> int:
    return emitted_after_first(observation) - decode_steps(observation)
