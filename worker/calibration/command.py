"""``verdraft calibrate``: at which loads this host's client keeps time, kept for preflight."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from app.domain.errors import DomainError
from app.settings import Settings
from app.terminal import EXIT_INTERRUPTED, EXIT_REFUSED, LOCAL_URL, AsJson, Url, refusals, tell


def calibrate(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Half a minute, fewer loads, instead of three.")] = False,
    aa: Annotated[
        Path | None,
        typer.Option("--aa", exists=True, dir_okay=False, help="A manifest: this host's noise on its workloads."),
    ] = None,
    blocks: Annotated[int, typer.Option(min=2, max=100, help="With --aa: blocks of target-only and again.")] = 5,
    as_json: AsJson = False,
    url: Url = LOCAL_URL,
) -> None:
    """Measure at which loads this host's client keeps time. Exits with 1 where it does at none.

    With --aa a running service measures target-only against itself instead: what it finds is this host's noise.
    """
    import asyncio

    if aa is not None:
        with refusals(as_json=as_json):
            _measure_noise(aa, blocks, url, as_json=as_json)
        return

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


def _measure_noise(file: Path, blocks: int, url: str, *, as_json: bool) -> None:
    """Submit the A/A experiment (the same again resumes it), follow it and say what it found."""
    from app.client import Service
    from app.domain.host_noise import calibration_of, host_noise
    from app.manifests.reading import read_manifest
    from app.watch import watch
    from worker.calibration.table import show_noise

    calibration = calibration_of(read_manifest(file), blocks)
    with Service(url) as service:
        experiment = service.submit(calibration.canonical(), "application/json")
        report = watch(service, experiment["id"], Console(stderr=True))
    if report is None:
        raise typer.Exit(EXIT_INTERRUPTED)
    found = host_noise(report)
    if found is None:
        raise DomainError.of("experiment", "blocks are missing, so nothing is known of the noise", "submit it again")
    if as_json:
        tell(found.model_dump(mode="json"), as_json=True)
    else:
        show_noise(Console(), found)


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
