"""``verdraft runtime sampler NAME``: drive the runtime's own rejection sampler, and say whether it is lossless."""

from typing import Annotated

import typer
from rich.console import Console

from app.domain.errors import DomainError
from app.settings import Settings
from app.terminal import AsJson, refusals

SAMPLES = 100_000
"""Rows of each case: at 1e-6 a divergence of 0.001 is noticed 99 times in 100 from 59,872 on (method A14)."""


def sampler(
    name: Annotated[str, typer.Argument(help="As `verdraft runtime list` shows it.")],
    *,
    samples: Annotated[int, typer.Option(min=1000, max=10_000_000, help="Rows of each case.")] = SAMPLES,
    as_json: AsJson = False,
) -> None:
    """Drive the engine's own rejection sampler with fixed logits; exits with 1 unless its output is the target's."""
    from worker.runtimes.asked import Unaskable
    from worker.runtimes.registry import inspect_runtime
    from worker.sampler.driving import drive
    from worker.sampler.table import show

    settings = Settings()
    with refusals(as_json=as_json):
        directory = settings.runtime_root / name
        if not directory.is_dir():
            raise DomainError.of("name", f"there is no runtime {name!r}", "see `verdraft runtime list`")
        try:
            report = drive(inspect_runtime(directory), samples)
        except Unaskable as error:
            message = f"its sampler could not be driven: {error}"
            raise DomainError.of("runtime", message, "see docs/sampling.md") from error
    if as_json:
        typer.echo(report.model_dump_json(indent=2))
    else:
        show(report, Console())
    raise typer.Exit(0 if report.passes else 1)
