"""``make bench-replay``: our replay engine and the field's load generators against one referee, in one run.

Each run is a line of the results file; with ``--resume`` a benchmark that was stopped goes on where it was.
"""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.replay import runs
from benchmarks.replay.bars import OURS, Bar, bars, capacity_bars, truth_bar
from benchmarks.replay.capacity import DEMANDS, kernel_limits, take
from benchmarks.replay.clients import CLIENTS
from benchmarks.replay.known_truth import know
from benchmarks.replay.offer import LoadGenerator
from benchmarks.replay.referee import ROOT
from benchmarks.replay.running import adopt_orphans
from benchmarks.replay.table import conditions, report, write_section

RATES_RPS = (20.0, 100.0, 200.0, 500.0, 1000.0)
RESULTS = ROOT / ".verdraft" / "bench-replay.jsonl"
TABLE_WIDTH = 260
GIVES_UP_BELOW = 0.9
"""A client that kept a smaller share of a rate is not asked for higher ones in that repeat."""

Rates = Annotated[list[float] | None, typer.Option("--rate", help="Requests/s; may be repeated.")]
Only = Annotated[list[str] | None, typer.Option("--client", help="Only these, and ours; may be repeated.")]


@dataclass(frozen=True, slots=True)
class Design:
    """What is run: every client at every rate in each repeat, in alternating order."""

    rates_rps: Sequence[float]
    repeats: int
    seconds: float
    tokens: int
    clients: Sequence[LoadGenerator]


def main(
    *,
    rates: Rates = None,
    only: Only = None,
    repeats: Annotated[int, typer.Option(min=1)] = 5,
    seconds: Annotated[float, typer.Option(min=1.0, help="Of offered load, a run.")] = 10.0,
    tokens: Annotated[int, typer.Option(min=2, help="Of each answer, each in a chunk of its own.")] = 64,
    results: Annotated[Path, typer.Option(help="One line a run.")] = RESULTS,
    markdown: Annotated[
        Path | None, typer.Option(help="Write the tables between the marks of this document, too.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Keep the runs that the results file has.")] = False,
) -> None:
    """Exits with 1 if one of our figures misses its bar; its row is marked SHORT."""
    adopt_orphans()
    clients = _clients(only or ())
    results.parent.mkdir(parents=True, exist_ok=True)
    if not resume:
        results.unlink(missing_ok=True)
    notes = Console(stderr=True)
    _run_all(Design(rates or RATES_RPS, repeats, seconds, tokens, clients), results, notes)
    made = list(runs.read(results))
    judged = [*bars(made), *asyncio.run(_alone(repeats))]
    _show(made, judged, markdown)
    raise typer.Exit(int(not all(bar.met for bar in judged)))


def _clients(only: Sequence[str]) -> list[LoadGenerator]:
    """Ours and the field's, or ours and those named, which may be other designs of ours."""
    if not only:
        return list(CLIENTS)
    from benchmarks.replay.clients.designs import DESIGNS  # noqa: PLC0415  (no one else needs what they import)

    return [client for client in (*CLIENTS, *DESIGNS) if client.name in (*only, OURS)]


def _run_all(design: Design, results: Path, notes: Console) -> None:
    have = {(r.client, r.rate_rps, r.repeat): r for r in runs.read(results)} if results.exists() else {}
    for repeat in range(design.repeats):
        for rate_rps in design.rates_rps:
            # Whoever runs first may find a cooler host: the order turns round with each repeat.
            for client in design.clients if repeat % 2 == 0 else reversed(design.clients):
                if (client.name, rate_rps, repeat) in have or _gave_up(results, client.name, repeat):
                    continue
                run = runs.measure(client, runs.Asked(rate_rps, repeat, design.seconds, design.tokens))
                runs.append(results, run)
                notes.print(_line(run), style="dim", highlight=False)


def _gave_up(results: Path, client: str, repeat: int) -> bool:
    """Whether a lower rate was already more than the client could keep."""
    made = [r for r in runs.read(results) if (r.client, r.repeat) == (client, repeat)] if results.exists() else []
    return client != OURS and any(r.figures is None or r.figures.achieved < GIVES_UP_BELOW for r in made)


def _line(run: runs.Run) -> str:
    did = run.problem or ""
    if run.figures is not None:
        did = f"achieved {run.figures.achieved:.4f}, late p99 {run.figures.lateness_p99_ms:.2f} ms {did}"
    return f"{run.rate_rps:g}/s #{run.repeat} {run.client}: {did} ({run.wall_s:.0f} s)"


async def _alone(repeats: int) -> list[Bar]:
    """What is asked of ours alone."""
    judged: list[Bar] = []
    for demand in DEMANDS:
        judged += capacity_bars([await take(demand) for _ in range(repeats)])
    return [*judged, truth_bar(await know())]


def _show(made: Sequence[runs.Run], judged: Sequence[Bar], markdown: Path | None) -> None:
    parts = report(made, judged, list(kernel_limits()))
    console = Console(width=None if sys.stdout.isatty() else TABLE_WIDTH)
    for part in parts:
        console.print(f"\n[bold]{part.title}[/bold]")
        console.print(part.terminal())
    if markdown is not None:
        write_section(markdown, f"{conditions(made)}\n\n" + "\n".join(part.markdown() for part in parts))


if __name__ == "__main__":
    typer.run(main)
