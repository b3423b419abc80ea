"""``verdraft runtime matrix`` holds preflight to the engine, ``runtime reconcile`` the counters to the answers."""

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from app.settings import Settings
from app.terminal import refusals

RuntimeName = Annotated[str, typer.Argument(help="As `verdraft runtime list` shows it.")]


def matrix(
    name: RuntimeName,
    only: Annotated[list[str] | None, typer.Option(help="A method or a row; may be repeated.")] = None,
    *,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ask the engine again where it has answered.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    markdown_file: Annotated[Path | None, typer.Option("--markdown", help="Write the table between its marks.")] = None,
) -> None:
    """Hold preflight to the engine: every method on the small models. Exits with 1 if a row falls short."""
    from worker.matrix.conduct import open_matrix, run_matrix
    from worker.matrix.judging import exit_code
    from worker.matrix.table import markdown, terminal, write_section

    notes = Console(stderr=True)
    with refusals(as_json=as_json):
        made = open_matrix(Settings(), name, fresh=fresh, say=lambda words: notes.print(words, style="dim"))
        rows = asyncio.run(run_matrix(made, only or ()))
        if markdown_file is not None:
            write_section(markdown_file, made.capability, markdown(rows))
    if as_json:
        typer.echo(json.dumps([row.model_dump(mode="json") for row in rows], indent=2))
    else:
        Console().print(terminal(rows))
    raise typer.Exit(exit_code(rows))


def reconcile(
    name: RuntimeName,
    only: Annotated[list[str] | None, typer.Option(help="A method or a row; may be repeated.")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    markdown_file: Annotated[Path | None, typer.Option("--markdown", help="Write the table between its marks.")] = None,
) -> None:
    """Hold the engine's counters to what its responses say, method by method. Exits with 1 if a token is missing."""
    from worker.matrix.conduct import open_matrix
    from worker.matrix.reconcile import reconcile_methods
    from worker.matrix.table import reconciled_markdown, reconciled_terminal, write_section

    notes = Console(stderr=True)
    with refusals(as_json=as_json):
        made = open_matrix(Settings(), name, fresh=False, say=lambda words: notes.print(words, style="dim"))
        rows = asyncio.run(reconcile_methods(made, only or ()))
        if markdown_file is not None:
            write_section(markdown_file, made.capability, reconciled_markdown(rows), what=f"reconciliation in {name}")
    if as_json:
        typer.echo(json.dumps([row.model_dump(mode="json") for row in rows], indent=2))
    else:
        Console().print(reconciled_terminal(rows))
    raise typer.Exit(int(not all(row.holds for row in rows)))
