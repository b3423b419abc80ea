"""The commands that touch engines and processes; ``app/cli.py`` joins them through an entry point.

As there, each command imports what it needs: the analysis takes seconds to load.
"""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from app.settings import Settings
from app.terminal import ExistingFile, refusals
from worker import model_commands, runtime_commands
from worker.calibration.command import calibrate
from worker.matrix.command import matrix, reconcile
from worker.profiling.command import profile
from worker.regression.command import check
from worker.sampler.command import sampler

app = typer.Typer(no_args_is_help=True)
app.command()(calibrate)
app.command()(profile)
app.command()(check)
runtime_commands.app.command()(matrix)
runtime_commands.app.command()(reconcile)
runtime_commands.app.command()(sampler)
app.add_typer(runtime_commands.app, name="runtime")
app.add_typer(model_commands.app, name="model")
console = Console()


@app.command()
def up(
    blocks: Annotated[int, typer.Option(min=1, help="Blocks of the demo; below five it is exploratory.")] = 5,
    full: Annotated[bool, typer.Option("--full", help="The demo with every proposer and a grid of k.")] = False,
    demo: Annotated[bool, typer.Option("--demo/--no-demo", help="Run the demo, or only serve.")] = True,
) -> None:
    """Start everything, run the demo to its verdict, and keep serving."""
    from worker import supervise
    from worker.demo import run_demo

    with refusals():
        settings = supervise.up(Settings(), _say)
        _tell_first_token(settings)
        code = run_demo(settings, blocks=blocks, full=full, console=console) if demo else 0
        console.print(_standing(settings), soft_wrap=True)
    raise typer.Exit(code)


@app.command()
def run(
    manifest: ExistingFile,
    *,
    bundle: Annotated[Path, typer.Option("--bundle", help="Where the bundle is written; an earlier one is replaced.")],
    traces: Annotated[
        list[Path] | None,
        typer.Option("--trace", exists=True, help="A trace, or a directory with some; else the manifest's own."),
    ] = None,
    time_limit_s: Annotated[
        float | None, typer.Option("--time-limit", min=1, help="Seconds after which it leaves in order.")
    ] = None,
    state: Annotated[
        Path | None, typer.Option("--state", help="Where everything is kept that a later call needs to go on.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option("--resume", exists=True, dir_okay=False, help="Go on from such a state.")
    ] = None,
    with_raw: Annotated[bool, typer.Option("--with-raw", help="Whole logs and raw reads into the bundle too.")] = False,
) -> None:
    """Run one experiment from start to verified bundle, headless; exits with 75 where its time was up before."""
    from worker import headless

    order = headless.Order(manifest, bundle, tuple(traces or ()), time_limit_s, state, resume, with_raw)
    clock = headless.Clock(time_limit_s)
    clock.listen()
    with refusals():
        raise typer.Exit(headless.run(Settings(), order, clock, console))


@app.command()
def demo(
    blocks: Annotated[int, typer.Option(min=1, help="Below five every verdict is exploratory.")] = 5,
    full: Annotated[bool, typer.Option("--full", help="With every proposer and a grid of k.")] = False,
) -> None:
    """Run the bundled demo on the running service, or follow the one that runs, to its verdict."""
    from worker.demo import run_demo

    with refusals():
        raise typer.Exit(run_demo(Settings(), blocks=blocks, full=full, console=console))


@app.command()
def down() -> None:
    """Stop everything that `up` started. Nothing is lost; `up` resumes."""
    from worker import supervise

    with refusals():
        supervise.down(Settings(), _say)


@app.command()
def status() -> None:
    """Show what runs, and how far this host's client is calibrated; exits with 1 unless all of it runs."""
    from worker import supervise
    from worker.calibrated import calibrated

    settings = Settings()
    with refusals():
        found = supervise.status(settings)
    for line in found:
        console.print(f"{line.name:<9} {'running' if line.running else 'stopped':<8} {line.detail}", soft_wrap=True)
    if found:
        console.print(f"{'client':<9} {calibrated(settings.home).words}", soft_wrap=True)
    raise typer.Exit(0 if found and all(line.running for line in found) else 1)


def _tell_first_token(settings: Settings) -> None:
    """Where access is required and nobody may administer yet: printed this once, and kept for this user's commands."""
    from app import credentials
    from app.access.first import first_admin_token
    from worker import supervise

    made = first_admin_token(settings)
    if made is not None:
        kept = credentials.remember(supervise.url(settings), made.token)
        console.print(f"The first administrator's token, shown this once (kept in {kept}):", soft_wrap=True)
        console.print(made.token, markup=False, highlight=False, soft_wrap=True)


def _standing(settings: Settings) -> str:
    """What is left running; the service may have been stopped from another shell while the demo ran."""
    from worker import supervise

    if all(line.running for line in supervise.status(settings)):
        return f"Serving at {supervise.url(settings)} (stop with `make down`)"
    return f"Not everything runs any more: see `make status` and {settings.home / 'logs'}"


def _say(words: str) -> None:
    console.print(words, style="dim", highlight=False, soft_wrap=True)
