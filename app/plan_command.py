"""The command ``verdraft plan``: what a manifest's blocks can show at a host's noise, before anything is submitted."""

from typing import TYPE_CHECKING, Annotated

import typer

from app.domain.errors import DomainError
from app.terminal import LOCAL_URL, AsJson, ExistingFile, Url, refusals, tell

if TYPE_CHECKING:
    from app.domain.power_plan import PowerPlan

Sd = Annotated[
    float | None, typer.Option("--noise", min=0.0, help="Standard deviation of block log-ratios: 0.02 is 2%.")
]
Past = Annotated[str | None, typer.Option("--from", help="An experiment of the same host whose noise is taken.")]


def plan(
    file: ExistingFile, *, noise: Sd = None, past: Past = None, url: Url = LOCAL_URL, as_json: AsJson = False
) -> None:
    """Power analysis of a manifest (YAML or JSON): effects that it can show, and blocks that it would need."""
    with refusals(as_json=as_json):
        found = _plan(file, noise, past, url)
    if as_json:
        tell(found.model_dump(mode="json"), as_json=True)
        return
    for sentence in found.sentences:
        typer.echo(sentence)
    for source in dict.fromkeys(c.noise.source for c in found.conditions):
        typer.echo(f"noise: {source}")


def _plan(file: ExistingFile, sd: float | None, past: str | None, url: str) -> "PowerPlan":
    from app.domain.power_plan import Noise, power_plan, seen_in  # noqa: PLC0415  (other commands start without it)
    from app.manifests.reading import read_manifest  # noqa: PLC0415  (as above)

    manifest = read_manifest(file)
    if past is not None:
        from app.client import Service  # noqa: PLC0415  (as above)

        with Service(url) as service:
            report = service.report(past)
        seen = seen_in(report.comparisons, f"the blocks of {report.name}; planned with its upper 80% limit")
        if seen.pooled is None:
            remedy = "name one with three complete blocks or more, or give --noise"
            raise DomainError.of("from", f"{report.name} has too few complete blocks to show its noise", remedy)
        return power_plan(manifest, seen.pooled, seen.by_condition)
    if sd is not None:
        return power_plan(manifest, Noise(sd=sd, source="as given"))
    from app.domain.estimate import assumed_noise  # noqa: PLC0415  (as above)

    assumed, source = assumed_noise(manifest)
    return power_plan(manifest, Noise(sd=assumed, source=source))


def register(app: typer.Typer) -> None:
    """Join the command to the others."""
    app.command("plan")(plan)
