"""``verdraft manifest``: write, check, compare and show manifests; only ``new`` asks a service, if there is one."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from app.domain.condition import expand
from app.domain.errors import DomainError
from app.domain.schedule import plan
from app.domain.vocabulary import Method
from app.manifests.difference import Difference, differences
from app.manifests.published import Published, named, only, published
from app.manifests.reading import read_manifest
from app.manifests.skeleton import COMMENTS, Known, commented, skeleton
from app.problems import Refused
from app.terminal import LOCAL_URL, AsJson, ExistingFile, refusals, tell

EXIT_DIFFERENT = 1
EXIT_TROUBLE = 2
"""As diff(1): 0 the same, 1 different, 2 could not be compared."""

app = typer.Typer(no_args_is_help=True, help="Write, check, compare and show manifests.")

AsYaml = Annotated[bool, typer.Option("--yaml", help="Print YAML instead of JSON.")]


@app.command("validate")
def validate_manifest(file: ExistingFile, *, as_json: AsJson = False) -> None:
    """Check a manifest (YAML or JSON) and print its digest; exits with 1 and every problem where it is refused."""
    with refusals(as_json=as_json):
        manifest = read_manifest(file)
    tell({"digest": manifest.digest, "name": manifest.name}, as_json=as_json)


@app.command("show")
def show_manifest(file: ExistingFile, *, as_yaml: AsYaml = False) -> None:
    """Print the manifest as it is frozen (lists expanded, defaults written out), with digest, conditions, schedule."""
    with refusals():
        manifest = read_manifest(file)
    order = {f"block {block.index + 1}": [session.arm for session in block.sessions] for block in plan(manifest)}
    shown = {
        "digest": manifest.digest,
        "manifest": manifest.model_dump(mode="json", exclude_none=True),
        "conditions": [condition.id for condition in expand(manifest)],
        "schedule": order,
    }
    typer.echo(_yaml(shown) if as_yaml else json.dumps(shown, indent=2, ensure_ascii=False))


@app.command("diff")
def diff_manifests(left: ExistingFile, right: ExistingFile, *, as_json: AsJson = False) -> None:
    """List the fields in which two manifests differ; exits with 0 if none, 1 if any, 2 if one is no manifest."""
    with refusals(as_json=as_json, status=EXIT_TROUBLE):
        found = differences(read_manifest(left), read_manifest(right))
    if as_json:
        tell([difference._asdict() for difference in found], as_json=True)
    else:
        for difference in found:
            typer.echo(_line(difference))
    raise typer.Exit(EXIT_DIFFERENT if found else 0)


@app.command("new")
def new_manifest(
    *,
    name: Annotated[str, typer.Option(help="What people call the experiment.")] = "my-experiment",
    method: Annotated[Method, typer.Option(help="The proposer, in vLLM's words.")] = Method.NGRAM,
    k: Annotated[list[int] | None, typer.Option("--k", help="Drafted tokens per step; several make a grid.")] = None,
    target: Annotated[
        str, typer.Option(help="The target: a pinned reference, or the alias of a published model.")
    ] = "",
    draft: Annotated[str, typer.Option(help="The draft or head, likewise.")] = "",
    runtime: Annotated[
        str, typer.Option(help="The runtime as `verdraft runtime list` prints it, or its beginning.")
    ] = "",
    blocks: Annotated[int, typer.Option(help="Repetitions of every arm.")] = 5,
    url: Annotated[str | None, typer.Option(envvar="VERDRAFT_URL", help="The service to fill it from.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Ask no service.")] = False,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write here instead of printing.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a manifest to fill in, from a running service and these options; a placeholder stands for the unknown."""
    with refusals(as_json=as_json):
        found = Published() if offline else _ask(url)
        known = Known(
            name=name,
            method=method,
            k=tuple(k or (4,)),
            blocks=blocks,
            target=named(target, found.models) or only(found.models),
            draft=named(draft, found.models),
            runtime=named(runtime, found.runtimes) or only(found.runtimes),
            hardware=found.hardware,
            software=found.software,
            workloads=found.workloads,
            loads=found.loads,
        )
        document = skeleton(known)
        _write(json.dumps(document, indent=2) + "\n" if as_json else commented(document, _comments(found)), output)


def _ask(url: str | None) -> Published:
    """What a service offers. One that was not named may be absent."""
    from app.client import Service  # noqa: PLC0415  (other commands need no HTTP)

    try:
        with Service(url or LOCAL_URL) as service:
            return published(service.capabilities(), service.traces())
    except Refused:
        if url is not None:
            raise
        typer.echo(f"No service answers at {LOCAL_URL}; placeholders stand for what it would know.", err=True)
        return Published()


def _comments(found: Published) -> Mapping[str, str]:
    """The skeleton's own, with the published references below those of the runtime and the target."""
    listed = {"runtime": found.runtimes, "target_model": found.models}
    return {key: "\n".join([comment, *listed.get(key, ())]) for key, comment in COMMENTS.items()}


def _write(text: str, output: Path | None) -> None:
    if output is None:
        typer.echo(text, nl=False)
    elif output.exists():
        raise DomainError.of("output", f"{output} is there already", "name a new file, or remove the old one")
    else:
        output.write_text(text)
        typer.echo(f"wrote {output}; check it with: verdraft manifest validate {output}")


def _line(difference: Difference) -> str:
    sides = ["(absent)" if side is None else json.dumps(side) for side in (difference.left, difference.right)]
    return f"{difference.field}: {sides[0]} → {sides[1]}"


def _yaml(document: Mapping[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120).rstrip("\n")
