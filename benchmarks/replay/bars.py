"""Medians over the repeats, and what our own must reach in the same run; pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from app.domain.client_range import Spread as ClientSpread
from app.domain.vocabulary import NS_PER_MS
from benchmarks.replay.capacity import Capacity
from benchmarks.replay.known_truth import GROWTH_MAX_BYTES, RATE_RPS, Known
from benchmarks.replay.runs import Run

OURS = "verdraft"
ACHIEVED_OFF_MAX = 0.001
LATENESS_P99_MAX_MS = 1.0
LATENESS_RATIO_MIN = 20.0
LATENESS_RATIO_FROM_RPS = 100
ERROR_P99_MAX_MS = 1.5
KEEPS_TIME_TO_RPS = 1000
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Column:
    """One figure of the table; less is better in all of them."""

    title: str
    value: Callable[[Run], float | None]
    compared: bool = True
    digits: int = 2


def _figure(name: str) -> Callable[[Run], float | None]:
    return lambda run: None if run.figures is None else getattr(run.figures, name)


def _gap_error(name: str) -> Callable[[Run], float | None]:
    """A mean over an answer's gaps is not a gap; such a client has no figure to compare."""
    return lambda run: None if run.figures is None or run.figures.gaps_are_means else getattr(run.figures, name)


def achieved_off(run: Run) -> float | None:
    """How far the achieved rate is from the offered one, as a share of it."""
    return None if run.figures is None else abs(1 - run.figures.achieved)


COLUMNS = (
    Column("off rate %", lambda run: None if (off := achieved_off(run)) is None else off * 100, digits=3),
    Column("late p50", _figure("lateness_p50_ms"), digits=3),
    Column("late p99", _figure("lateness_p99_ms"), digits=3),
    Column("late max", _figure("lateness_max_ms"), compared=False),
    Column("TTFT err p50", _figure("ttft_error_p50_ms"), digits=3),
    Column("TTFT err p99", _figure("ttft_error_p99_ms"), digits=3),
    Column("gap err p50", _gap_error("gap_error_p50_ms"), digits=3),
    Column("gap err p99", _gap_error("gap_error_p99_ms"), digits=3),
    Column("CPU s/1000", lambda run: run.cpu_s_per_1000 if run.cpu_s else None),
    Column("PSS MiB", lambda run: run.peak_pss_bytes / MIB if run.peak_pss_bytes else None, digits=0),
)


@dataclass(frozen=True, slots=True)
class Spread:
    """Over the repeats."""

    median: float
    low: float
    high: float


def spread(runs: Sequence[Run], column: Column) -> Spread | None:
    """``None`` unless every repeat has the figure: a client is not judged by its good days."""
    values = [value for run in runs if (value := column.value(run)) is not None]
    return Spread(median(values), min(values), max(values)) if values and len(values) == len(runs) else None


@dataclass(frozen=True, slots=True)
class Bar:
    """One demand on our own figures."""

    rate_rps: float
    demand: str
    found: str
    met: bool


def bars(runs: Sequence[Run]) -> Iterator[Bar]:
    """Every demand at every rate; a figure that is missing misses its bar."""
    for rate_rps in sorted({run.rate_rps for run in runs}):
        by_client = {name: [r for r in runs if (r.client, r.rate_rps) == (name, rate_rps)] for name in _clients(runs)}
        yield from _absolute(rate_rps, by_client[OURS])
        for column in COLUMNS:
            if column.compared:
                yield _against_rivals(rate_rps, by_client, column)


def _clients(runs: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys([OURS, *(run.client for run in runs)]))


def _absolute(rate_rps: float, ours: Sequence[Run]) -> Iterator[Bar]:
    demands = (
        ("late p99", LATENESS_P99_MAX_MS, "ms"),
        ("off rate %", ACHIEVED_OFF_MAX * 100, "%"),
        ("TTFT err p99", ERROR_P99_MAX_MS, "ms"),
        ("gap err p99", ERROR_P99_MAX_MS, "ms"),
    )
    for title, limit, unit in demands:
        found = spread(ours, _column(title))
        words = "no figure" if found is None else f"{found.median:.3f} {unit}"
        yield Bar(rate_rps, f"{title} at most {limit:g} {unit}", words, found is not None and found.median <= limit)


def _against_rivals(rate_rps: float, by_client: dict[str, list[Run]], column: Column) -> Bar:
    """At most the best rival's; for the p99 lateness from some rate on, a twentieth of it."""
    is_ratio = column.title == "late p99" and rate_rps >= LATENESS_RATIO_FROM_RPS
    demand = f"{column.title} {LATENESS_RATIO_MIN:g} times below the best rival" if is_ratio else f"{column.title} best"
    found = {name: spread(runs, column) for name, runs in by_client.items()}
    ours = found.pop(OURS)
    rivals = {name: s.median for name, s in found.items() if s is not None}
    if ours is None or not rivals:
        return Bar(rate_rps, demand, "no figure of " + ("ours" if ours is None else "a rival"), ours is not None)
    name = min(rivals, key=rivals.__getitem__)
    allowed = rivals[name] / (LATENESS_RATIO_MIN if is_ratio else 1)
    words = f"{ours.median:.3f} against {rivals[name]:.3f} ({name})"
    return Bar(rate_rps, demand, words, ours.median <= allowed)


def _column(title: str) -> Column:
    return next(column for column in COLUMNS if column.title == title)


def capacity_bars(taken: Sequence[Capacity]) -> Iterator[Bar]:
    """What one core of client must take over a unix socket in most of the repeats, and how well it must keep time."""
    demand, kept_up = taken[0].demand, sum(capacity.met for capacity in taken)
    found = (
        f"{kept_up} of {len(taken)} runs kept up; chunks/s {_middle([c.chunks_per_s for c in taken])}, "
        f"a core second {_middle([c.chunks_per_core_s for c in taken])}; "
        f"client {_middle([c.client_busy * 100 for c in taken])} % and "
        f"referee {_middle([c.referee_busy * 100 for c in taken])} % busy"
    )
    words = f"{demand.rate_rps * demand.chunks:,.0f} chunks/s ({demand.chunks} a request) on one core"
    yield Bar(demand.rate_rps, words, found, kept_up * 2 > len(taken))
    if demand.rate_rps <= KEEPS_TIME_TO_RPS:
        late = [c.attempt.lateness for c in taken]
        yield _unix_bar(demand.rate_rps, "late", late, LATENESS_P99_MAX_MS)
        yield _unix_bar(demand.rate_rps, "receive error", [c.attempt.receive_error for c in taken], ERROR_P99_MAX_MS)


def _unix_bar(rate_rps: float, name: str, seen: Sequence[ClientSpread | None], limit_ms: float) -> Bar:
    values = [one.p99_ns / NS_PER_MS for one in seen if one is not None]
    met = len(values) == len(seen) and median(values) <= limit_ms
    words = f"{name} p99 at most {limit_ms:g} ms over a unix socket"
    return Bar(rate_rps, words, f"{_middle(values, 3)} ms" if values else "no figure", met)


def _middle(values: Sequence[float], digits: int = 0) -> str:
    """Median and range."""
    return f"{median(values):,.{digits}f} [{min(values):,.{digits}f}, {max(values):,.{digits}f}]"


def truth_bar(known: Known) -> Bar:
    """What must come back exactly, in how much memory."""
    found = (
        f"{known.exact} of {known.requests} exact; receive error {known.error_p50_ms:.3f} / {known.error_p99_ms:.3f} / "
        f"{known.error_max_ms:.3f} ms (p50/p99/max); the client grew by {known.grown_bytes / MIB:.0f} MiB"
    )
    demand = f"{known.chunks:,} chunks come back exactly, in at most {GROWTH_MAX_BYTES / MIB:.0f} MiB more"
    return Bar(RATE_RPS, demand, found, known.met)
