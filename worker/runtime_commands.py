"""``verdraft runtime …``: the engine runtimes of this host, made here, added by path, or a container image."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from app.domain.capability import RuntimeCapability
from app.domain.engine_version import floor_reason, knowledge
from app.domain.errors import DomainError
from app.settings import Settings
from app.terminal import AsJson, refusals, tell
from worker.runtimes.asked import capability_of
from worker.runtimes.container import find_engine
from worker.runtimes.install import install, installed
from worker.runtimes.recipes import RECIPES
from worker.runtimes.registry import (
    BrokenRuntime,
    Device,
    RuntimeIdentity,
    candidate_container,
    candidate_environment,
    candidate_layers,
    discard,
    inspect_runtime,
    register,
    remove,
    survey,
)

RuntimeName = Annotated[str, typer.Argument(help="As `verdraft runtime list` shows it.")]

app = typer.Typer(no_args_is_help=True, help="Engine runtimes of this host.")


@app.command("install")
def install_runtime(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(sorted(RECIPES))}.")], *, as_json: AsJson = False
) -> None:
    """Make an engine runtime from its hash-locked requirements; quick when it is there."""
    settings = Settings()
    with refusals(as_json=as_json):
        install(name, settings.runtime_root, torch_index=settings.torch_index, say=_say)
        found = inspect_runtime(settings.runtime_root / name)
    _tell(found, settings, as_json=as_json)


@app.command("add")
def add_runtime(
    name: Annotated[str, typer.Argument(help="What you want to call it here.")],
    path: Annotated[Path | None, typer.Argument(help="A directory that holds bin/vllm; it stays where it is.")] = None,
    *,
    python: Annotated[
        Path | None, typer.Option(help="The path holds packages only, which go before this Python's own.")
    ] = None,
    image: Annotated[str | None, typer.Option(help="Instead of a path: repository@sha256:<64 hex>.")] = None,
    version: Annotated[str | None, typer.Option(help="The vLLM in the image, such as 0.32.0.")] = None,
    device: Annotated[Device, typer.Option(help="What the image was built for.")] = "cuda",
    as_json: AsJson = False,
) -> None:
    """Register a vLLM environment by path, or a container image by digest, after asking it what it can do."""
    settings = Settings()
    with refusals(as_json=as_json):
        if python is not None and image is not None:
            raise DomainError.of("python", "an image brings its own Python", "leave out either --python or --image")
        if python is not None and path is not None:
            candidate = candidate_layers(name, path, python, settings.runtime_root)
        else:
            candidate = _candidate(settings, name, path, image=image, version=version, device=device)
        try:
            _require_askable(capability_of(candidate, settings.home, _say))
        except DomainError:
            discard(candidate)
            raise
        register(candidate, settings.runtime_root)
    _tell(candidate, settings, as_json=as_json)


@app.command("list")
def list_runtimes(*, as_json: AsJson = False) -> None:
    """Show each runtime as a manifest names it, and what is wrong with it if something is."""
    settings = Settings()
    found = survey(settings.runtime_root)
    if as_json:
        tell([_listed(one, settings) for one in found], as_json=True)
        return
    for one in found:
        typer.echo(f"{one.name}: {'cannot be used' if isinstance(one, BrokenRuntime) else _line(one)}")
        for note in _notes(one, settings):
            typer.echo(f"  {note}")


@app.command("inspect")
def inspect_one(name: RuntimeName, *, as_json: AsJson = False) -> None:
    """Print all that the runtime says of itself; asks it once, which takes about 20 s."""
    settings = Settings()
    with refusals(as_json=as_json):
        found = inspect_runtime(_directory(name, settings.runtime_root))
        capability = capability_of(found, settings.home, _say)
    if as_json:
        typer.echo(capability.model_dump_json(indent=2))
        return
    for line in _described(capability):
        typer.echo(line)
    for note in _notes(found, settings):
        typer.echo(f"note: {note}")


@app.command("remove")
def remove_runtime(
    name: RuntimeName,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before deleting a runtime made here.")] = False,
    as_json: AsJson = False,
) -> None:
    """Forget an added runtime (what it points to stays), or delete one that was made here."""
    settings = Settings()
    with refusals(as_json=as_json):
        directory = _directory(name, settings.runtime_root)
        if (directory / "pyvenv.cfg").exists() and not yes:
            _confirm(directory, as_json=as_json)
        remove(name, settings.runtime_root)
    tell({"removed": name}, as_json=as_json)


def _candidate(
    settings: Settings, name: str, path: Path | None, *, image: str | None, version: str | None, device: Device
) -> RuntimeIdentity:
    if (path is None) == (image is None):
        message = "name either a directory or an image"
        raise DomainError.of("path", message, "verdraft runtime add NAME PATH, or NAME --image IMAGE --version V")
    if path is not None:
        return candidate_environment(name, path, settings.runtime_root)
    if version is None:
        message = "an image is named with the vLLM version in it"
        raise DomainError.of("version", message, "add --version, such as 0.32.0")
    found = candidate_container(name, str(image), version, device, settings.runtime_root)
    find_engine()
    return found


def _require_askable(capability: RuntimeCapability) -> None:
    if capability.unavailable is None:
        return
    by_hand = "bin/vllm --version" if capability.kind == "environment" else "docker run --rm IMAGE --help"
    remedy = f"try it by hand first: {by_hand}"
    raise DomainError.of("runtime", f"it could not be asked what it can do: {capability.unavailable}", remedy)


def _directory(name: str, runtime_root: Path) -> Path:
    here = [one.name for one in survey(runtime_root)]
    if name not in here:
        message = f"there is no runtime {name!r} (here: {', '.join(here) or 'none'})"
        raise DomainError.of("name", message, "correct the name, or `verdraft runtime install` or `add` it")
    return runtime_root / name


def _confirm(directory: Path, *, as_json: bool) -> None:
    if as_json:
        raise DomainError.of("name", f"{directory} would be deleted", "say --yes")
    typer.confirm(f"Delete {directory} and everything in it?", abort=True)


def _line(found: RuntimeIdentity) -> str:
    torch = f", torch {found.torch}" if found.kind == "environment" else ""
    return f"{found.ref} ({found.kind}, {found.device}{torch})"


def _notes(found: RuntimeIdentity | BrokenRuntime, settings: Settings) -> Iterator[str]:
    """What somebody should know before using it."""
    if isinstance(found, BrokenRuntime):
        yield from (f"{problem.message} ({problem.remedy})" for problem in found.error.problems)
        return
    if found.name in RECIPES and not installed(found.name, settings.runtime_root):
        yield f"not as the recipe says: run `verdraft runtime install {found.name}`"
    if found.layers is not None:
        below = ", ".join(map(str, found.layers.below))
        yield f"in layers: {found.layers.packages} before {below}; the digest covers all of them"
    if found.has_changed:
        yield "changed since it was added: it has another digest, and manifests that name the old one are refused"
    if found.altered:
        more = f" and {len(found.altered) - 3} more" if len(found.altered) > 3 else ""  # noqa: PLR2004  (as shown)
        yield f"files changed after their installation: {', '.join(found.altered[:3])}{more}"
    reason = floor_reason(found.version)
    if reason:
        yield f"below the security floor: {reason}; a manifest must say why (engine_below_floor)"


def _listed(found: RuntimeIdentity | BrokenRuntime, settings: Settings) -> dict[str, Any]:
    notes = list(_notes(found, settings))
    if isinstance(found, BrokenRuntime):
        return {"name": found.name, "usable": False, "notes": notes}
    facts = {key: getattr(found, key) for key in ("ref", "kind", "package", "version", "digest", "device", "torch")}
    schema = str(knowledge(found.version))
    return {"name": found.name, "usable": True, **facts, "root": str(found.root), "schema": schema, "notes": notes}


def _tell(found: RuntimeIdentity, settings: Settings, *, as_json: bool) -> None:
    if as_json:
        tell(_listed(found, settings), as_json=True)
        return
    typer.echo(f"{found.name}: {_line(found)}")
    for note in _notes(found, settings):
        typer.echo(f"  {note}")


def _described(capability: RuntimeCapability) -> Iterator[str]:
    """Field by field; long lists in one line each."""
    for key, value in capability.model_dump(mode="json").items():
        if isinstance(value, dict):
            yield f"{key}:"
            yield from (f"  {name}: {text}" for name, text in value.items())
        else:
            yield f"{key}: {', '.join(value) if isinstance(value, list) else value}"


def _say(words: str) -> None:
    """Progress goes to stderr: stdout is the answer."""
    typer.echo(words, err=True)
