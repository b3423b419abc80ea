"""``verdraft calibrate``: at which loads this host's client keeps time, kept for preflight."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from app.settings import Settings
from app.terminal import EXIT_REFUSED, AsJson, refusals, tell


def calibrate(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Half a minute, fewer loads, instead of three.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure at which loads this host's client keeps time. Exits with 1 where it does at none."""
    import asyncio

    from worker.calibrated import keep
    from worker.calibration import ladders
    from worker.calibration.measuring import calibrate_alone
    from worker.calibration.table import show

    settings = Settings()
    with refusals(as_json=as_json), _progress() as say:
        tried = ladders.quick() if quick else ladders.full()
        found = asyncio.run(calibrate_alone(settings, tried, quick=quick, say=say))
    kept = keep(settings.home, found) if found.passed else None
    if as_json:
        tell({"kept": None if kept is None else str(kept), **found.model_dump(mode="json")}, as_json=True)
    else:
        show(Console(), found)
        typer.echo(
            f"kept in {kept}" if kept else "nothing is kept: the client kept time at no load (docs/calibration.md)"
        )
    raise typer.Exit(0 if found.passed else EXIT_REFUSED)


@contextmanager
def _progress() -> Generator[Callable[[str], None], None, None]:
    """What is being tried, on stderr. Redrawn only when told: a redraw is a burst of work beside the measurement."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, auto_refresh=False, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def say(words: str) -> None:
            bar.update(task, description=words, refresh=True)
            if not console.is_terminal:
                console.print(words, style="dim", highlight=False)

        yield say
