"""A calibration for people: a line for each cell, what kept it from passing, and how far the range reaches."""

from rich.console import Console
from rich.table import Table

from app.domain.client_range import ClientAttempt, ClientCell, ClientRange, Spread
from app.domain.host_noise import HostNoise
from app.domain.vocabulary import NS_PER_MS

COLUMNS = ("shape", "requests/s", "in flight", "chunks/s", "arrived late p50/p99/max ms", "stamped late p50/p99/max ms")
MORE_COLUMNS = ("achieved", "attempts", "kept time")


def show(console: Console, found: ClientRange) -> None:
    """Print it."""
    console.print(_table(found))
    for cell in found.cells:
        if not cell.passed:
            console.print(f"{cell.shape} at {cell.rate_rps:,.4g}/s: {cell.reason}", soft_wrap=True, highlight=False)
    host = found.host
    where = f"client on core {_cores(host.client_cores)}, null engine on {_cores(host.engine_cores)}"
    console.print(f"{where}, priority {found.priority}: {found.reach}", soft_wrap=True, highlight=False)


def show_noise(console: Console, found: HostNoise) -> None:
    """Print how far target-only differs from itself, a line for each pair."""
    table = Table("workload", "load", "ratio", "SD of blocks", "detectable", "called", title="Host noise (A/A)")
    for c in found.conditions:
        ratio = "-" if c.ratio is None or c.ratio.value is None else f"{c.ratio.value:.3f}"
        noise = ("-" if value is None else f"{value:.1%}" for value in (c.block_sd, c.detectable))
        table.add_row(c.workload, c.load, ratio, *noise, str(c.word))
    console.print(table)
    console.print(found.words, soft_wrap=True, highlight=False)


def _table(found: ClientRange) -> Table:
    table = Table(title=f"Client range, {'quick, ' if found.quick else ''}{found.measured}", title_justify="left")
    for index, name in enumerate((*COLUMNS, *MORE_COLUMNS)):
        table.add_column(name, justify="right" if 0 < index < len(COLUMNS) + 1 else "left")
    for cell in found.cells:
        table.add_row(*_row(cell), style=None if cell.passed else "bold red")
    return table


def _row(cell: ClientCell) -> tuple[str, ...]:
    """The numbers of the worst of the attempts that decided it."""
    worst = max(cell.deciding, key=_lateness)
    share = "-" if worst.achieved_share is None else f"{worst.achieved_share:.1%}"
    size = (f"{cell.rate_rps:,.4g}", f"{cell.concurrency:,}", f"{cell.chunks_per_s:,.0f}")
    times = (_times(worst.lateness), _times(worst.receive_error))
    return (cell.shape, *size, *times, share, str(len(cell.attempts)), "✓ yes" if cell.passed else "✕ no")


def _lateness(attempt: ClientAttempt) -> float:
    return float("inf") if attempt.lateness is None else attempt.lateness.p99_ns


def _times(spread: Spread | None) -> str:
    if spread is None:
        return "-"
    return " / ".join(f"{value / NS_PER_MS:.2f}" for value in (spread.p50_ns, spread.p99_ns, spread.max_ns))


def _cores(cores: tuple[int, ...]) -> str:
    return ", ".join(map(str, cores))
