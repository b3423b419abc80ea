"""``verdraft check``: the regression suite on a runtime's methods, or on one arm of a manifest."""

import asyncio
import signal
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from app.settings import Settings
from app.terminal import refusals

WIDTH = 160
"""Of the table where there is no terminal."""


def check(
    runtime: Annotated[str, typer.Argument(help="As `verdraft runtime list` shows it.")],
    method: Annotated[list[str] | None, typer.Option(help="A method; may be repeated. By default all.")] = None,
    case: Annotated[list[str] | None, typer.Option(help="A case; may be repeated. By default all.")] = None,
    *,
    manifest: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Instead of methods: an arm of this manifest.")
    ] = None,
    arm: Annotated[str | None, typer.Option(help="The arm of the manifest.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the matrix with its evidence here.")] = None,
    add: Annotated[bool, typer.Option("--add", help="Add to the matrix that the --json file has.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the matrix between its marks of a Markdown file.")] = None,
) -> None:
    """Check that speculation changes nothing but speed: every case on every method. Exits with 1 if a cell fails."""
    from worker.regression.conduct import run_checks
    from worker.regression.document import Kept, read_matrix, write_matrix
    from worker.regression.planning import Asked, make_plan
    from worker.regression.table import fails, terminal

    notes, console = Console(stderr=True), Console()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: whoever ends it leaves no engine behind
    with refusals():
        asked = Asked(runtime, tuple(method or ()), tuple(case or ()), manifest, arm)
        earlier = read_matrix(json_file) if add else None
        kept = Kept(json_file, earlier)
        plan = asyncio.run(make_plan(Settings(), asked, lambda words: _say(notes, words), kept.keep))
        found = kept.whole(asyncio.run(run_checks(plan)))
        if out is not None:
            write_matrix(out, found)
    (console if console.is_terminal else Console(width=WIDTH)).print(terminal(found))
    for line in fails(found):
        typer.echo(line)
    raise typer.Exit(int(bool(found.fails)))


def _say(notes: Console, words: str) -> None:
    notes.print(words, style="dim", markup=False, highlight=False, soft_wrap=True)
