"""Acceptance from the engine's counters, where its responses carry no counts of their own.

Counters know runs, not requests: the unit of uncertainty is the block, and no stratum can be told apart.
"""

from collections.abc import Callable, Sequence

from app.domain.acceptance import DraftCounts, PositionAcceptance, mean_length_excl, mean_length_incl
from app.domain.evidence import CounterDeltas, RunEvidence
from app.domain.statistics import Estimate, mean_over_blocks

SOURCE = "engine counters, mean of blocks with t interval (method A1); this engine gives no counts per request"
UNTOLD = "this engine gives no speculation counts per request, and its counters cannot tell"

Measure = Callable[[DraftCounts], float | None]


def acceptance_rate(runs: Sequence[RunEvidence], unit: str) -> Estimate:
    """``accepted / drafted`` of each block."""
    return _over_blocks(runs, unit, lambda counts: counts.accepted / counts.drafted if counts.drafted else None)


def length_excl(runs: Sequence[RunEvidence], unit: str) -> Estimate:
    """``accepted / drafts`` of each block."""
    return _over_blocks(runs, unit, mean_length_excl)


def length_incl(runs: Sequence[RunEvidence], unit: str) -> Estimate:
    """``1 + accepted / drafts`` of each block."""
    return _over_blocks(runs, unit, mean_length_incl)


def untold(unit: str, what: str) -> Estimate:
    """A quantity that only per-request counts could give; ``what`` ends the sentence that says so."""
    return Estimate(value=None, n=0, unit=unit, source=SOURCE, why=f"{UNTOLD} {what}")


def by_position(runs: Sequence[RunEvidence]) -> PositionAcceptance:
    """Accepted at each position / all drafts; conditional beyond position 0 only where every draft had full length.

    With shorter drafts the engine does not export how many reached a position (method A2).
    """
    counters = [c for c in (run.counters for run in runs) if c is not None]
    accepted_at = [c.spec_decode_num_accepted_tokens_per_pos for c in counters]
    totals = sum((_counts(c) for c in counters), DraftCounts())
    if not totals.drafts or any(at is None for at in accepted_at):
        return PositionAcceptance((), ())
    at = [sum(column) for column in zip(*(a for a in accepted_at if a is not None), strict=True)]
    full = totals.drafted == len(at) * totals.drafts
    before = (totals.drafts, *at[:-1])
    return PositionAcceptance(
        tuple(hits / totals.drafts for hits in at),
        tuple(
            hits / chances if chances and (full or position == 0) else None
            for position, (hits, chances) in enumerate(zip(at, before, strict=True))
        ),
    )


def _over_blocks(runs: Sequence[RunEvidence], unit: str, measure: Measure) -> Estimate:
    told = (measure(_counts(run.counters)) for run in runs if run.counters is not None)
    values = [value for value in told if value is not None]
    found = mean_over_blocks(values, unit)
    return found.model_copy(update={"source": SOURCE, "why": found.why if values else "no drafts proposed"})


def _counts(counters: CounterDeltas) -> DraftCounts:
    return DraftCounts(
        counters.spec_decode_num_drafts or 0,
        counters.spec_decode_num_draft_tokens or 0,
        counters.spec_decode_num_accepted_tokens or 0,
    )
