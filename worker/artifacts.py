"""The artifact store: files by content address under one directory."""

import hashlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Artifact:
    """A stored file. ``path`` is relative to the store's root."""

    sha256: str
    path: str
    size_bytes: int


def store(root: Path, source: Path) -> Artifact:
    """Copy ``source`` in; a file that is already there is left as it is (same content, same name)."""
    with source.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    relative = Path(sha256[:2]) / sha256
    target = root / relative
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        _copy_atomically(source, target)
    return Artifact(sha256, str(relative), target.stat().st_size)


def _copy_atomically(source: Path, target: Path) -> None:
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as temporary, source.open("rb") as stream:
        shutil.copyfileobj(stream, temporary)
    Path(temporary.name).replace(target)
