"""``verdraft profile``: how long target and draft take per step, in a run apart from everything that is timed."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from app.settings import Settings
from app.terminal import AsJson, ExistingFile, refusals, tell


def profile(
    manifest: ExistingFile,
    *,
    workload: Annotated[str, typer.Option(help="Which workload's requests are sent.")],
    arm: Annotated[list[str] | None, typer.Option(help="An arm; may be repeated. By default all.")] = None,
    load: Annotated[str | None, typer.Option(help="Of which load point; by default the first.")] = None,
    trace: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="The workload's file, where the service is not here."),
    ] = None,
    requests: Annotated[int, typer.Option(min=1, help="How many requests are profiled.")] = 20,
    concurrency: Annotated[int, typer.Option(min=1, help="How many are in flight at once.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Tell target from draft time per step with the engine's profiler; the host must be free of experiments."""
    from app.manifests.reading import read_manifest
    from worker.profiling.conduct import Wish, profile_arms
    from worker.profiling.requests import arms_of, choose, load_of, open_workload, workload_of
    from worker.profiling.table import show

    notes, settings = Console(stderr=True), Settings()
    with refusals(as_json=as_json):
        frozen = read_manifest(manifest)
        arms, wanted = arms_of(frozen, arm or ()), load_of(frozen, load)
        chosen = choose(open_workload(workload_of(frozen, workload), trace, settings), wanted, requests)
        wish = Wish(frozen, arms, chosen, concurrency)
        found = asyncio.run(profile_arms(settings, wish, lambda words: notes.print(words, style="dim")))
    if as_json:
        tell([told.model_dump(mode="json") for told in found], as_json=True)
    else:
        show(Console(), found)
