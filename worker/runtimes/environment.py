"""An installed environment by content: its distributions, their files, and one digest over both.

The digest is over the RECORD files. A file that is no longer what its RECORD says counts as what it is
now, so that an edited environment is another one; where the environment lies does not count.
"""

import base64
import csv
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from email.parser import HeaderParser
from pathlib import Path

from pydantic import JsonValue

from app.domain.canonical import canonical_json, digest
from app.domain.errors import DomainError
from worker.runtimes.layers import Layers

SITE_PACKAGES = ("lib/python3.*/site-packages", "lib64/python3.*/site-packages", "lib/python3.*/dist-packages")
BORROWING = re.compile(r"(?mi)^include-system-site-packages\s*=\s*true")
INSTALL_REMEDY = "install one (`verdraft runtime install cpu`), or name the directory that holds bin/vllm"


@dataclass(frozen=True, slots=True)
class Environment:
    """``versions`` by normalised name; ``altered`` are files that are not as their RECORD says, with why."""

    root: Path
    python: str
    versions: Mapping[str, str]
    digest: str
    altered: tuple[str, ...]


@dataclass(slots=True)
class _Checked:
    """What was found when a distribution's files were last read, by the state of those files."""

    path: Path | None
    found: dict[str, tuple[str, str, list[str]]] = field(default_factory=dict[str, tuple[str, str, list[str]]])
    """Distribution → (state of its files, digest, altered files)."""

    @classmethod
    def load(cls, path: Path | None) -> "_Checked":
        with suppress(OSError, ValueError):
            return cls(path, {name: tuple(row) for name, row in json.loads((path or Path()).read_text()).items()})
        return cls(path)

    def save(self) -> None:
        if self.path is None:
            return
        with suppress(OSError):  # only time is lost: the files are read again
            self.path.parent.mkdir(parents=True, exist_ok=True)
            temporary = self.path.with_suffix(f".{os.getpid()}")
            temporary.write_text(json.dumps(self.found))
            temporary.replace(self.path)


def read_environment(root: Path, checked_path: Path | None = None) -> Environment:
    """The environment at ``root``; ``DomainError`` where it is none, or one whose files no RECORD pins.

    Reading every file takes seconds once; ``checked_path`` keeps what was found, by size and times.
    """
    directories = _site_packages(root)
    _refuse_foreign_files(root, directories)
    checked = _Checked.load(checked_path)
    before = dict(checked.found)
    distributions = sorted(_distribution(p, checked) for d in directories for p in sorted(d.glob("*.dist-info")))
    if checked.found != before:
        checked.save()
    return Environment(
        root=root,
        python=directories[0].parent.name.removeprefix("python"),
        versions={name: version for name, version, _, _ in distributions},
        digest=digest(canonical_json([[name, version, files] for name, version, files, _ in distributions])),
        altered=tuple(note for _, _, _, notes in distributions for note in notes),
    )


def read_layers(root: Path, layers: Layers, checked_path: Path | None = None) -> Environment:
    """The environment that joins ``layers``: every distribution of each, the upper one's version where both have it.

    What the Python below brings without a RECORD, or leads elsewhere, is beyond the digest and named as altered.
    """
    checked = _Checked.load(checked_path)
    before = dict(checked.found)
    found: list[JsonValue] = []
    versions: dict[str, str] = {}
    notes = [f"{name} (it leads elsewhere)" for path in layers.below for name in _foreign(path)]
    directories = (layers.packages, *layers.below)
    places = [(level, p) for level, directory in enumerate(directories) for p in sorted(directory.glob("*.dist-info"))]
    with ThreadPoolExecutor() as readers:  # tens of gigabytes, where an image brings torch and CUDA
        read = readers.map(lambda place: _in_layer(place[0], place[1], checked), places)
        for (level, _), (name, version, files, altered) in zip(places, read, strict=True):
            found.append([str(level), name, version, files])
            versions.setdefault(name, version)
            notes += altered
    if checked.found != before:
        checked.save()
    return Environment(root, layers.python, versions, digest(canonical_json(found)), tuple(notes))


def _in_layer(level: int, dist_info: Path, checked: _Checked) -> tuple[str, str, str, list[str]]:
    if (dist_info / "RECORD").exists():
        return _distribution(dist_info, checked, f"{level}/")
    name = dist_info.name.removesuffix(".dist-info")
    return name, "", "", [f"{name} (without RECORD: its files are not known)"]


def _site_packages(root: Path) -> list[Path]:
    """Where the one Python of ``root`` has its distributions."""
    real = {path.resolve(): path for pattern in SITE_PACKAGES for path in sorted(root.glob(pattern))}
    with_engine = [path for path in real.values() if next(path.glob("vllm*.dist-info"), None)]
    if not with_engine or not (root / "bin" / "vllm").exists():
        raise DomainError.of("runtime", f"{root} is not an engine runtime: it has no vLLM installed", INSTALL_REMEDY)
    pythons = {path.parent.name for path in with_engine}
    if len(pythons) > 1:
        message = f"{root} has vLLM for several Pythons ({', '.join(sorted(pythons))})"
        raise DomainError.of("runtime", message, "name an environment with one Python")
    return [path for path in real.values() if path.parent.name in pythons]


def _refuse_foreign_files(root: Path, directories: list[Path]) -> None:
    """Editable installs and borrowed directories can change while every RECORD stays the same."""
    configuration = root / "pyvenv.cfg"
    if configuration.exists() and BORROWING.search(configuration.read_text()):
        message = f"{root} borrows the system's packages, which its digest would not cover"
        raise DomainError.of("runtime", message, "make it without --system-site-packages")
    foreign = sorted({name for directory in directories for name in _foreign(directory)})
    if foreign:
        message = f"{', '.join(foreign)} of {root} can change under the same digest (editable, or a path file)"
        raise DomainError.of("runtime", message, "build a wheel of it and install that")


def _foreign(directory: Path) -> Iterator[str]:
    for origin in directory.glob("*.dist-info/direct_url.json"):
        with suppress(OSError, ValueError):
            if json.loads(origin.read_text()).get("dir_info", {}).get("editable"):
                yield origin.parent.name.partition("-")[0]
    yield from (link.name for link in directory.glob("*.egg-link"))
    for path_file in directory.glob("*.pth"):
        lines = path_file.read_text(errors="replace").splitlines()
        if any(line.startswith("/") for line in lines):
            yield path_file.name


def _distribution(dist_info: Path, checked: _Checked, level: str = "") -> tuple[str, str, str, list[str]]:
    """Normalised name, version, the digest of its files, and those that are not as recorded."""
    metadata = HeaderParser().parsestr((dist_info / "METADATA").read_text(errors="replace"), headersonly=True)
    name = re.sub(r"[-_.]+", "-", str(metadata["Name"])).lower()
    rows, key = list(_rows(dist_info)), f"{level}{dist_info.name}"
    prefix = f"{dist_info.parent}/"
    state = digest("\n".join([*rows, *(_state(prefix, row) for row in rows)]).encode())
    known = checked.found.get(key)
    if known is None or known[0] != state:
        found = [_as_found(dist_info.parent, row) for row in rows]
        altered = [_path(row) for row, now in zip(rows, found, strict=True) if row != now]
        known = checked.found[key] = (state, digest("\n".join(sorted(found)).encode()), altered)
    return name, str(metadata["Version"]), known[1], known[2]


def _rows(dist_info: Path) -> Iterator[str]:
    """The RECORD's lines. Files outside site-packages are left out: start scripts begin with the environment's path."""
    try:
        text = (dist_info / "RECORD").read_text(errors="replace")
    except FileNotFoundError as error:
        message = f"{dist_info.name.removesuffix('.dist-info')} has no RECORD, so its files are unknown"
        raise DomainError.of("runtime", message, "install it anew with pip or uv") from error
    return (row for row in text.splitlines() if row and not row.startswith(("../", "/")))


def _state(prefix: str, row: str) -> str:
    """What changes whenever a recorded file does. Plain text, since it is read for each of fifty thousand rows."""
    if not _expected(row):
        return ""
    try:
        stat = os.stat(prefix + _path(row))  # noqa: PTH116  (a Path for each row costs more than the rest)
    except OSError:
        return "missing"
    return f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}"


def _as_found(site_packages: Path, row: str) -> str:
    """The row as it should read by the file's present content; rows without a hash stand for themselves."""
    algorithm, _, expected = _expected(row).partition("=")
    if not expected:
        return row
    try:
        with (site_packages / _path(row)).open("rb") as file:
            found = base64.urlsafe_b64encode(hashlib.file_digest(file, algorithm).digest()).rstrip(b"=").decode()
    except OSError:
        return f"{_path(row)},missing,"
    return row if found == expected else f"{_path(row)},{algorithm}={found},altered"


def _path(row: str) -> str:
    return row.partition(",")[0] if '"' not in row else next(csv.reader([row]))[0]


def _expected(row: str) -> str:
    """The recorded hash as ``algorithm=value``; empty where nothing is to be compared.

    Installers compile anew: a compiled file is not compared even where its wheel brought one with a hash.
    """
    before, _, _ = row.rpartition(",")
    path, _, expected = before.rpartition(",")
    return "" if path.endswith(".pyc") else expected
