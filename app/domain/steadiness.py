"""Whether a run was one regime from its first request to its last: warm before it began, steady, equally accepted.

Each looks at the requests in the order in which they were due, and sees them beside their own kind: a trace that begins
with its slow task has no slow beginning.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from app.domain.acceptance import DraftCounts, draft_counts
from app.domain.clustered import ratio_of_totals
from app.domain.latency import e2e_ns, output_tokens
from app.domain.observation import RequestObservation
from app.domain.statistics import Estimate, Floats

BATCH = 5
"""Requests to a batch: the 5 of MSER-5."""
BATCHES_MIN = 20
"""Below it MSER-5 takes one run in ten of pure noise for unsteady; here one in forty (docs/controls.md)."""
DRIFT_MIN = 0.25
"""Of the pace over a whole run, as a share of its median."""
DRIFT_P = 1e-3
HEAD_MIN = 5
HEAD_SHARE = 0.05
"""How much of a run counts as its beginning, and at least ``HEAD_MIN`` requests."""
WARM_UP_MIN = 30
LEAK_RATIO = 1.5
"""A beginning this much slower than the rest was not warm."""
LEAK_P = 1e-3
COLLAPSE_RATIO = 0.5
"""The last third's acceptance below this share of the first third's (method A11; vllm#52873)."""
KIND_MIN = 20
"""Of fewer a median says more about the request itself than about its kind."""
THIRD_MIN = 10
"""Requests that drafted in each third."""

Kinds = Mapping[str, Hashable]
"""Request id → what is alike among requests: its strata."""


class Truncation(NamedTuple):
    """MSER's answer: how many batches to leave out of how many. At half of them, the run never became steady."""

    batches: int
    of: int

    @property
    def steady(self) -> bool:
        """Whether the best truncation is before the middle."""
        return self.batches < self.of // 2


class Beginning(NamedTuple):
    """Median time per output token of a run's beginning over that of the rest, and the rank test's p."""

    ratio: float
    p: float

    @property
    def leaks(self) -> bool:
        """Whether the beginning was slower, by much and not by chance."""
        return self.ratio > LEAK_RATIO and self.p < LEAK_P


class Drift(NamedTuple):
    """How much the pace changes from a run's first request to its last, as a share of its median, and Kendall's p."""

    change: float
    p: float

    @property
    def found(self) -> bool:
        """Whether it is much and not by chance."""
        return abs(self.change) > DRIFT_MIN and self.p < DRIFT_P


def drift(values: Sequence[float]) -> Drift | None:
    """The Theil-Sen slope over the whole run; MSER sees a slow beginning, but not a run that slows down.

    ``None`` below 100 values.
    """
    if len(values) < BATCH * BATCHES_MIN:
        return None
    order = np.arange(len(values))
    slope: Any = stats.theilslopes(values, order)
    rank: Any = stats.kendalltau(order, values)
    change = float(slope.slope) * (len(values) - 1) / float(np.median(values))
    return Drift(change, float(rank.pvalue))


def truncation(values: Sequence[float]) -> Truncation | None:
    """MSER-5: the number of leading batches of five whose removal makes the mean's standard error smallest.

    ``argmin over d <= m/2 of sum_{i>d} (z_i - mean_d)^2 / (m - d)^2`` (White 1997; method A11). ``None`` below
    twenty batches.
    """
    m = len(values) // BATCH
    if m < BATCHES_MIN:
        return None
    batches = np.asarray(values[: m * BATCH], dtype=np.float64).reshape(m, BATCH).mean(axis=1)
    errors = [_error_after(batches[d:]) for d in range(m // 2 + 1)]
    return Truncation(int(np.argmin(errors)), m)


def beginning(values: Sequence[float]) -> Beginning | None:
    """How the beginning of a run's ``paces`` compares with the rest; ``None`` below thirty of them."""
    if len(values) < WARM_UP_MIN:
        return None
    head = max(HEAD_MIN, math.ceil(HEAD_SHARE * len(values)))
    first, rest = values[:head], values[head:]
    test = stats.mannwhitneyu(first, rest, alternative="greater")
    return Beginning(float(np.median(first) / np.median(rest)), float(test.pvalue))


def kinds_of(labels: Mapping[str, Mapping[str, str]]) -> Kinds:
    """Requests with the same strata; those of which there are too few to compare among themselves are one kind."""
    kinds = {request: frozenset(strata.items()) for request, strata in labels.items()}
    sizes = Counter(kinds.values())
    return {request: kind if sizes[kind] >= KIND_MIN else None for request, kind in kinds.items()}


def thirds(observations: Sequence[RequestObservation], kinds: Kinds) -> tuple[Estimate, Estimate] | None:
    """Accepted over expected tokens in the first and the last third of the requests that drafted.

    Expected is what was drafted times the whole run's acceptance rate of the request's kind. ``None`` where they are
    too few.
    """
    drafting = [o for o in in_order(observations) if draft_counts(o).drafted]
    size = len(drafting) // 3
    if size < THIRD_MIN:
        return None
    rates = _rates(drafting, kinds)
    return _relative(drafting[:size], kinds, rates), _relative(drafting[-size:], kinds, rates)


def collapsed(first: Estimate, last: Estimate) -> bool:
    """Whether acceptance fell by half or more, and the intervals do not meet."""
    if not first.value or last.value is None or last.value >= COLLAPSE_RATIO * first.value:
        return False
    high = last.value if last.high is None else last.high
    low = first.value if first.low is None else first.low
    return high < low


def paces(observations: Sequence[RequestObservation], kinds: Kinds) -> list[float]:
    """End-to-end time per output token of each served request over the median of its kind, in order of due time."""
    timed = [
        (kinds.get(o.request_id), time / tokens)
        for o in in_order(observations)
        if (time := e2e_ns(o)) is not None and (tokens := output_tokens(o))
    ]
    groups: dict[Hashable, list[float]] = defaultdict(list)
    for kind, pace in timed:
        groups[kind].append(pace)
    medians = {kind: float(np.median(found)) for kind, found in groups.items()}
    return [pace / medians[kind] if medians[kind] else 1.0 for kind, pace in timed]


def _error_after(kept: Floats) -> float:
    return float(((kept - kept.mean()) ** 2).sum()) / kept.size**2


def _rates(observations: Sequence[RequestObservation], kinds: Kinds) -> dict[Hashable, float]:
    totals: dict[Hashable, DraftCounts] = defaultdict(DraftCounts)
    for o in observations:
        totals[kinds.get(o.request_id)] += draft_counts(o)
    return {kind: counts.accepted / counts.drafted for kind, counts in totals.items()}


def _relative(observations: Sequence[RequestObservation], kinds: Kinds, rates: Mapping[Hashable, float]) -> Estimate:
    counts = [draft_counts(o) for o in observations]
    expected = [c.drafted * rates[kinds.get(o.request_id)] for o, c in zip(observations, counts, strict=True)]
    return ratio_of_totals([c.accepted for c in counts], expected, "accepted / expected tokens", most=None)


def in_order(observations: Sequence[RequestObservation]) -> list[RequestObservation]:
    """By due time."""
    return sorted(observations, key=lambda o: (o.due_ns, o.request_id))
