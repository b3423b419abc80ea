"""The figures as a table, on the terminal and in Markdown, with what misses its bar marked SHORT."""

from collections.abc import Iterator, Sequence

from rich.table import Table

from benchmarks.replay.bars import COLUMNS, Bar, Column, spread
from benchmarks.replay.runs import Run

HEAD = ("rate/s", "client", "runs", *(column.title for column in COLUMNS))


def rows(runs: Sequence[Run]) -> Iterator[tuple[str, ...]]:
    """Median and, in brackets, range over the repeats; milliseconds where the title names no unit."""
    for rate_rps, client in dict.fromkeys((run.rate_rps, run.client) for run in sorted(runs, key=lambda r: r.rate_rps)):
        group = [run for run in runs if (run.rate_rps, run.client) == (rate_rps, client)]
        yield f"{rate_rps:g}", client, str(len(group)), *(_cell(group, column) for column in COLUMNS)


def _cell(group: Sequence[Run], column: Column) -> str:
    found = spread(group, column)
    if found is None:
        return "-"
    return f"{found.median:.{column.digits}f} [{found.low:.{column.digits}f}, {found.high:.{column.digits}f}]"


def terminal(head: Sequence[str], body: Sequence[Sequence[str]]) -> Table:
    table = Table(*head, box=None, pad_edge=False)
    for row in body:
        table.add_row(*row)
    return table


def markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def bar_rows(bars: Sequence[Bar]) -> list[tuple[str, ...]]:
    return [(f"{bar.rate_rps:g}", bar.demand, bar.found, "" if bar.met else "SHORT") for bar in bars]


BAR_HEAD = ("rate/s", "demand", "found", "")
LIMIT_HEAD = ("transport", "sends/core s", "reads/core s")
