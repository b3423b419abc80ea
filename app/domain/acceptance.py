"""What the target accepted of what was drafted: counts per request, by draft position, and three mean lengths.

Counts only; ``statistics.ratio_of_totals`` gives them intervals. A step without a draft is not
a draft here, as in vLLM's own counters (method A2, A3).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from app.domain.observation import RequestObservation, SpeculationCounts


@dataclass(frozen=True, slots=True)
class DraftCounts:
    """Drafts (steps with at least one proposed token), drafted and accepted tokens."""

    drafts: int = 0
    drafted: int = 0
    accepted: int = 0

    def __add__(self, other: "DraftCounts") -> "DraftCounts":
        return DraftCounts(self.drafts + other.drafts, self.drafted + other.drafted, self.accepted + other.accepted)


@dataclass(frozen=True, slots=True)
class PositionAcceptance:
    """By draft position, 0-based. ``conditional[j]`` is ``None`` where nothing was drafted after an accepted prefix."""

    unconditional: tuple[float, ...]
    conditional: tuple[float | None, ...]


def draft_counts(observation: RequestObservation) -> DraftCounts:
    """The request's counts; zeros where the engine reported no speculation."""
    told = observation.speculation
    if told is None:
        return DraftCounts()
    return DraftCounts(told.num_spec_steps, told.num_draft_tokens, told.num_accepted_draft_tokens)


def from_histogram(histogram: Sequence[int], k: int) -> DraftCounts:
    """Counts from vLLM's acceptance histogram (``histogram[a]`` steps accepted ``a``), every step drafting ``k``."""
    steps = sum(histogram)
    return DraftCounts(steps, k * steps, sum(a * count for a, count in enumerate(histogram)))


def by_position(steps: Sequence[SpeculationCounts]) -> PositionAcceptance:
    """Acceptance at each draft position over all steps.

    ``unconditional[j]`` = steps that accepted more than ``j`` / all drafts; ``conditional[j]`` = the same numerator /
    steps that accepted the ``j`` before it *and* drafted a token at ``j``: drafts vary in length.
    """
    accepted = np.concatenate([np.asarray(s.per_step_accepted, dtype=np.int64) for s in steps] or [np.empty(0)])
    drafted = np.concatenate([np.asarray(s.per_step_drafted, dtype=np.int64) for s in steps] or [np.empty(0)])
    if accepted.size == 0:
        return PositionAcceptance((), ())
    reached = [(int((accepted > j).sum()), int(((accepted >= j) & (drafted > j)).sum())) for j in range(drafted.max())]
    return PositionAcceptance(
        tuple(hits / accepted.size for hits, _ in reached),
        tuple(hits / chances if chances else None for hits, chances in reached),
    )


def position_counts(told: SpeculationCounts | None, positions: int) -> npt.NDArray[np.int64]:
    """One request's steps at each position: accepted there; drafted there after an accepted prefix; and all of them."""
    accepted = np.asarray(told.per_step_accepted if told else (), dtype=np.int64)
    drafted = np.asarray(told.per_step_drafted if told else (), dtype=np.int64)
    at = np.arange(positions)[:, None]
    hits, chances = (accepted > at).sum(axis=1), ((accepted >= at) & (drafted > at)).sum(axis=1)
    return np.stack([hits, chances, np.full(positions, accepted.size)])


def mean_length_excl(counts: DraftCounts) -> float | None:
    """``accepted / drafts``: draft tokens only."""
    return counts.accepted / counts.drafts if counts.drafts else None


def mean_length_incl(counts: DraftCounts) -> float | None:
    """``1 + accepted / drafts``: with the target's own token; vLLM's "mean acceptance length"."""
    return 1 + counts.accepted / counts.drafts if counts.drafts else None


def decode_steps(observation: RequestObservation) -> int:
    """Target steps after the first token, with or without a draft: the denominator of ``mean_length_emit``.

    Each step emits one token and its accepted drafts, so steps = tokens after the first - accepted, unless the last
    step's drafts were cut off by the end of the output. The number of chunks decides between the two; it alone would
    be too low where the server merged chunks.
    """
    after_first = max(len(observation.token_ids) - 1, 0)
    told = observation.speculation
    accepted = 0 if told is None else told.num_accepted_draft_tokens
    cut_at_most = told.per_step_accepted[-1] if told is not None and told.per_step_accepted else 0
    fewest = max(after_first - accepted, 0)
    return min(max(len(observation.chunk_ns) - 1, fewest), fewest + cut_at_most, after_first)


def emitted_after_first(observation: RequestObservation) -> int:
    """Tokens after the first: the numerator of ``mean_length_emit``."""
    return max(len(observation.token_ids) - 1, 0)


def inconsistencies(told: SpeculationCounts) -> tuple[str, ...]:
    """What contradicts itself in one request's counts."""
    accepted, drafted = told.per_step_accepted, told.per_step_drafted
    checks = {
        "accepted more than drafted": told.num_accepted_draft_tokens > told.num_draft_tokens,
        "per_step_accepted does not sum to num_accepted_draft_tokens": sum(accepted) != told.num_accepted_draft_tokens,
        "per_step_drafted does not sum to num_draft_tokens": sum(drafted) != told.num_draft_tokens,
        "the arrays do not have num_spec_steps entries": not len(accepted) == len(drafted) == told.num_spec_steps,
        "a step accepted more than it drafted": any(a > d for a, d in zip(accepted, drafted, strict=False)),
    }
    return tuple(words for words, broken in checks.items() if broken)


def broken_invariants(counts: DraftCounts, accepted_at: Sequence[int], k: int) -> tuple[str, ...]:
    """Which identities of method A2 the engine's counters violate; ``accepted_at[j]`` is ``…_per_pos{position=j}``."""
    checks = {
        "accepted by position does not sum to accepted": sum(accepted_at) != counts.accepted,
        "accepted by position rises": any(a < b for a, b in pairwise(accepted_at)),
        "accepted exceeds drafted": counts.accepted > counts.drafted,
        "accepted at position 0 exceeds drafts": bool(accepted_at) and accepted_at[0] > counts.drafts,
        f"drafted exceeds {k} per draft": counts.drafted > k * counts.drafts,
    }
    return tuple(words for words, broken in checks.items() if broken)
