"""The command ``verdraft preflight``: ask the service whether a manifest could be run, and what it would cost."""

from collections.abc import Iterator
from typing import Any

import typer

from app.terminal import LOCAL_URL, AsJson, ExistingFile, Url, refusals, tell

EXIT_REFUSED = 1


def preflight(file: ExistingFile, *, url: Url = LOCAL_URL, as_json: AsJson = False) -> None:
    """Check a manifest (YAML or JSON) against the workers' hosts; exits with 1 where a check refuses it."""
    from app.client import Service  # noqa: PLC0415  (other commands start without it)

    media_type = "application/json" if file.suffix == ".json" else "application/yaml"
    with refusals(as_json=as_json), Service(url) as service:
        answer = service.preflight(file.read_bytes(), media_type)
    if as_json:
        tell(answer, as_json=True)
    else:
        for line in lines_of(answer):
            typer.echo(line)
    if answer["refused"]:
        raise typer.Exit(EXIT_REFUSED)


def lines_of(answer: dict[str, Any]) -> Iterator[str]:
    """One line for each check, grouped by arm, with the remedy below; then what it all comes to."""
    from app.domain.preflight import PreflightOutcome  # noqa: PLC0415  (as above)

    host = answer["host"]
    yield f"on {host}" if host else "no worker has published the runtime: what only a host can tell is not checkable"
    arm = ""
    for check in answer["checks"]:
        if check["arm"] != arm:
            arm = check["arm"]
            yield f"{arm or 'whole experiment'}:"
        yield f"  {PreflightOutcome(check['outcome']).sign} {check['name']}: {check['reason']}"
        if check["remedy"] and check["outcome"] != "pass":
            yield f"      {check['field']}: {check['remedy']}"
    cost = answer["estimate"]
    size = f"{cost['sessions']} servers, {cost['requests']:,} requests"
    yield f"about {cost['wall_minutes']:,.0f} min on one worker: {size} ({cost['times_from']})"
    yield _effect(cost)
    yield "refused" if answer["refused"] else "nothing refuses it"


def _effect(cost: dict[str, Any]) -> str:
    """What the blocks can show; one block shows nothing."""
    effect = cost["minimum_detectable_effect_in_family"]
    if effect is None:
        return "one block can show no effect"
    return f"these blocks can show an effect of {effect:.1%} (80% power, all comparisons together)"


def register(app: typer.Typer) -> None:
    """Join the command to the others."""
    app.command("preflight")(preflight)
