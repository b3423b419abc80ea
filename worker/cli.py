"""The commands that touch engines and processes; ``app/cli.py`` joins them through an entry point."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console

from app.domain.errors import DomainError
from app.settings import Settings
from worker import supervise
from worker.demo import run_demo
from worker.identity import inspect_runtimes
from worker.runtimes.install import RECIPES, install, installed

app = typer.Typer(no_args_is_help=True)
runtime = typer.Typer(no_args_is_help=True, help="Engine runtimes of this host.")
app.add_typer(runtime, name="runtime")
console = Console()


@contextmanager
def _explained() -> Generator[None, None, None]:
    """The command boundary: a fact the product knows becomes words and an exit code, not a traceback."""
    try:
        yield
    except DomainError as error:
        for problem in error.problems:
            console.print(f"[bold red]{problem.field}[/]: {problem.message}", highlight=False, soft_wrap=True)
            console.print(f"  remedy: {problem.remedy}", highlight=False, soft_wrap=True)
        raise typer.Exit(1) from error


@app.command()
def up(
    blocks: Annotated[int, typer.Option(min=1, help="Blocks of the demo; below five it is exploratory.")] = 5,
    full: Annotated[bool, typer.Option("--full", help="The demo with every proposer and a grid of k.")] = False,
    demo: Annotated[bool, typer.Option("--demo/--no-demo", help="Run the demo, or only serve.")] = True,
) -> None:
    """Start everything, run the demo to its verdict, and keep serving."""
    with _explained():
        settings = supervise.up(Settings(), _say)
        code = run_demo(settings, blocks=blocks, full=full, console=console) if demo else 0
        console.print(f"Serving at {supervise.url(settings)} (stop with `make down`)", soft_wrap=True)
    raise typer.Exit(code)


@app.command()
def demo(
    blocks: Annotated[int, typer.Option(min=1, help="Below five every verdict is exploratory.")] = 5,
    full: Annotated[bool, typer.Option("--full", help="With every proposer and a grid of k.")] = False,
) -> None:
    """Run the bundled demo on the running service, or follow the one that runs, to its verdict."""
    with _explained():
        raise typer.Exit(run_demo(Settings(), blocks=blocks, full=full, console=console))


@app.command()
def down() -> None:
    """Stop everything that `up` started. Nothing is lost; `up` resumes."""
    with _explained():
        supervise.down(Settings(), _say)


@app.command()
def status() -> None:
    """Show what runs; exits with 1 unless all of it does."""
    with _explained():
        found = supervise.status(Settings())
    for line in found:
        console.print(f"{line.name:<9} {'running' if line.running else 'stopped':<8} {line.detail}", soft_wrap=True)
    raise typer.Exit(0 if found and all(line.running for line in found) else 1)


@runtime.command("install")
def install_runtime(name: Annotated[str, typer.Argument(help=f"One of: {', '.join(sorted(RECIPES))}.")]) -> None:
    """Make an engine runtime from its hash-locked requirements; quick when it is there."""
    settings = Settings()
    with _explained():
        root = install(name, settings.runtime_root, torch_index=settings.torch_index, say=_say)
    _say(f"runtime {name} is in {root}")


@runtime.command("list")
def list_runtimes() -> None:
    """Show each runtime with its digest."""
    settings = Settings()
    for found in inspect_runtimes(settings.runtime_root):
        current = found.name not in RECIPES or installed(found.name, settings.runtime_root)
        note = "" if current else "  (not as the recipe says: run `verdraft runtime install`)"
        console.print(f"{found.name}: {found.ref}, torch {found.torch}{note}", highlight=False, soft_wrap=True)


def _say(words: str) -> None:
    console.print(words, style="dim", highlight=False, soft_wrap=True)
