"""``make calibrate-statistics``: every interval and word that a report states, judged in worlds of known truth.

The product's own functions are called, or vectorised twins that a test holds to them.
"""

from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.statistics import acceptance, latencies, looks, noise, queues, verdicts
from benchmarks.statistics.figures import Figure, markdown, table

MARK = "calibrate-statistics"
BLOCKS = (3, 5, 8)
SEED = 20_261_130
FULL = {"latencies": 10_000, "acceptance": 10_000, "verdicts": 20_000, "looks": 20_000, "noise": 20_000, "queues": 100}


def main(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the experiments, for a look.")] = False,
    only: Annotated[
        str | None, typer.Option(help="`latencies`, `acceptance`, `verdicts`, `looks`, `noise` or `queues`.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of all worlds.")] = SEED,
    to: Annotated[Path | None, typer.Option("--markdown", help="Replace the section in this document.")] = None,
) -> None:
    """Exits with 1 if a row misses its bar; it is marked SHORT. Rows of naive rivals say whether they fail."""
    sizes = {name: size // 10 if quick else size for name, size in FULL.items() if only in {None, name}}
    figures: list[Figure] = []
    for name, size in sizes.items():
        started = monotonic()
        figures.extend(_part(name, size, seed))
        typer.echo(f"{name}: {monotonic() - started:.0f} s", err=True)
    Console(width=200).print(table(figures))
    short = [figure for figure in figures if figure.is_short]
    typer.echo(f"{len(figures)} rows, {len(short)} SHORT, {sum(f.rival and not f.within for f in figures)} rivals fail")
    if to is not None:
        _write(to, figures)
    raise typer.Exit(1 if short else 0)


def _part(name: str, size: int, seed: int) -> Iterator[Figure]:
    match name:
        case "latencies":
            yield from latencies.figures(size, BLOCKS, seed)
        case "acceptance":
            yield from acceptance.figures(size, seed)
        case "verdicts":
            yield from verdicts.figures(size, BLOCKS, seed)
        case "looks":
            yield from looks.figures(size, seed)
        case "noise":
            yield from noise.figures(size, seed)
        case _:
            yield from queues.figures(size, BLOCKS, seed)


def _write(path: Path, figures: list[Figure]) -> None:
    begin, end = f"<!-- begin {MARK} -->", f"<!-- end {MARK} -->"
    document = path.read_text()
    before, _, rest = document.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise typer.BadParameter(f"{path} has no lines {begin} and {end}")
    path.write_text(f"{before}{begin}\n\n{markdown(figures)}\n{end}{after}")


if __name__ == "__main__":
    typer.run(main)
