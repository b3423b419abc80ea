"""The commands ``verdraft accelerator``: see accelerators, take one out of use, put it back; through the HTTP API."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from app.domain.errors import DomainError
from app.terminal import LOCAL_URL, AsJson, Url, refusals, tell

app = typer.Typer(no_args_is_help=True, help="See accelerators, take one out of use, put it back.")

Address = Annotated[str, typer.Argument(metavar="HOST/NAME", help="As `verdraft accelerator list` prints it.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; whoever comes after you reads it.")]


@app.command("list")
def list_accelerators(*, as_json: AsJson = False, url: Url = LOCAL_URL) -> None:
    """List every accelerator with its state, and why it is quarantined."""
    from app.client import Service  # noqa: PLC0415  (other commands start without it)

    with refusals(as_json=as_json), Service(url) as service:
        accelerators = service.accelerators()
    if as_json:
        tell(accelerators, as_json=True)
        return
    for line in lines_of(accelerators):
        typer.echo(line)


@app.command()
def quarantine(address: Address, *, reason: Reason, as_json: AsJson = False, url: Url = LOCAL_URL) -> None:
    """Let nothing start on an accelerator; a block that is under way there ends first."""
    from app.client import Service  # noqa: PLC0415  (as above)

    with refusals(as_json=as_json), Service(url) as service:
        _tell(service.quarantine(*_parts(address), reason), as_json=as_json)


@app.command()
def release(address: Address, *, reason: Reason, as_json: AsJson = False, url: Url = LOCAL_URL) -> None:
    """Take an accelerator out of quarantine, after you have looked at it."""
    from app.client import Service  # noqa: PLC0415  (as above)

    with refusals(as_json=as_json), Service(url) as service:
        _tell(service.release(*_parts(address), reason), as_json=as_json)


def lines_of(accelerators: list[dict[str, Any]]) -> Iterator[str]:
    """One line for each: address, state, kind, and what else a person must know."""
    if not accelerators:
        yield "no worker has published any accelerator"
    width = max((len(_address(a)) for a in accelerators), default=0)
    for accelerator in accelerators:
        known = [f"{_address(accelerator):<{width}}", f"{accelerator['state']:<11}", accelerator["kind"]]
        yield "  ".join([*known, *_remarks(accelerator)])


def _remarks(accelerator: dict[str, Any]) -> Iterator[str]:
    if accelerator["reason"]:
        yield f"because: {accelerator['reason']}"
    if accelerator["experiment_id"]:
        yield f"works for {accelerator['experiment_id'][:12]}, block {accelerator['block'] + 1}"
    if accelerator["stale"]:
        yield f"its host has been silent for {accelerator['silent_s']:.0f} s"


def _tell(accelerator: dict[str, Any], *, as_json: bool) -> None:
    short = {"accelerator": _address(accelerator), "state": accelerator["state"]}
    tell(accelerator if as_json else short, as_json=as_json)


def _address(accelerator: dict[str, Any]) -> str:
    return f"{accelerator['host']}/{accelerator['name']}"


def _parts(address: str) -> tuple[str, str]:
    host, slash, name = address.partition("/")
    if not (host and slash and name):
        remedy = "write it as HOST/NAME, as `verdraft accelerator list` prints it"
        raise DomainError.of("accelerator", f"{address!r} is not the address of an accelerator", remedy)
    return host, name
