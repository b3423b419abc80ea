"""The artifact store: files under their sha256, written whole or not at all, and compared with it on every read.

fsspec reaches it: a directory by default, ``s3://bucket/prefix`` and others where their library is installed.
"""

import hashlib
import os
import re
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Final

import fsspec

from app.domain.errors import NotFound

CHUNK_BYTES: Final = 1 << 20
_NAME: Final = re.compile(r"[0-9a-f]{64}")
_AGES: Final = ("mtime", "LastModified", "created", "updated")


class ArtifactDamaged(NotFound):
    """What lies under a digest has another one: its disk, or somebody, has changed it."""

    title = "The artifact is damaged"


@dataclass(frozen=True, slots=True)
class Artifact:
    """A stored file. ``path`` is relative to the store's root."""

    sha256: str
    path: str
    size_bytes: int


class ArtifactStore:
    """The store at ``url``, a path or anything that fsspec knows; blocking, so call it in a thread."""

    def __init__(self, url: str) -> None:
        self._files, root = _opened(url)
        self._root: str = root.rstrip("/")

    @property
    def is_local(self) -> bool:
        """Whether it is a directory of this host."""
        return "file" in _protocols(self._files)

    def put(self, source: Path) -> Artifact:
        """Copy ``source`` in; one that is already there becomes young again, so that no sweep takes it just now."""
        with source.open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        size = source.stat().st_size
        path = path_of(sha256)
        if self._size(path) != size or not self._touched(path):
            self._write(source, self._place(path))
        return Artifact(sha256, path, size)

    def has(self, sha256: str) -> bool:
        """Whether it is here."""
        return self._size(path_of(sha256)) is not None

    def copy(self, sha256: str, target: IO[bytes]) -> None:
        """Write the artifact into ``target``. Raises ``NotFound`` or, at the end, ``ArtifactDamaged``."""
        for chunk in self._chunks(sha256):
            target.write(chunk)

    def tail(self, sha256: str, size: int) -> bytes:
        """Its last ``size`` bytes, after all of it was compared with its digest. Raises as ``copy`` does."""
        kept: deque[bytes] = deque()
        held = 0
        for chunk in self._chunks(sha256):
            kept.append(chunk)
            held += len(chunk)
            while held - len(kept[0]) >= size:
                held -= len(kept.popleft())
        return b"".join(kept)[-size:]

    def remove(self, sha256: str) -> int:
        """Remove it, if it is here; returns the bytes that this frees."""
        size = self._size(path_of(sha256))
        if size is None:
            return 0
        self._files.rm_file(self._place(path_of(sha256)))
        return size

    def age_s(self, sha256: str) -> float:
        """How long ago it was stored; no time at all where it is not here, or nobody knows."""
        try:
            return time.time() - _stored_at(self._files.info(self._place(path_of(sha256))))
        except FileNotFoundError:
            return 0

    def digests(self, *, older_than_s: float) -> Iterator[str]:
        """Every artifact that was stored at least so long ago; a younger one may be about to be referred to."""
        limit = time.time() - older_than_s
        if not self._files.exists(self._root):
            return
        self._files.invalidate_cache()
        for path, facts in self._files.find(self._root, detail=True).items():
            name = path.rpartition("/")[2]
            if _NAME.fullmatch(name) and _stored_at(facts) <= limit:
                yield name

    def _chunks(self, sha256: str) -> Iterator[bytes]:
        found = hashlib.sha256()
        try:
            with self._files.open(self._place(path_of(sha256)), "rb") as stream:
                while chunk := stream.read(CHUNK_BYTES):
                    found.update(chunk)
                    yield chunk
        except FileNotFoundError as error:
            remedy = "look on the host whose worker stored it, or share the store: VERDRAFT_ARTIFACT_URL"
            raise NotFound.of("artifact", f"{sha256} is not here", remedy) from error
        if found.hexdigest() != sha256:
            remedy = "restore it from a backup; nothing that depends on it can be trusted"
            raise ArtifactDamaged.of("artifact", f"{sha256} has the digest {found.hexdigest()} now", remedy)

    def _size(self, path: str) -> int | None:
        try:
            return int(self._files.info(self._place(path))["size"])
        except FileNotFoundError:
            return None

    def _touched(self, path: str) -> bool:
        """Whether the file could be made young in place; an object has to be written again."""
        if self.is_local:
            os.utime(self._place(path))
        return self.is_local

    def _place(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _write(self, source: Path, place: str) -> None:
        """An object store shows an object when it is complete; a directory needs a name to be moved from."""
        if not self.is_local:
            self._files.put_file(str(source), place)
            return
        target = Path(place)
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as unfinished, source.open("rb") as stream:
            shutil.copyfileobj(stream, unfinished)
            unfinished.flush()
            os.fsync(unfinished.fileno())
        Path(unfinished.name).replace(target)


def path_of(sha256: str) -> str:
    """Where an artifact is below the root. Raises ``ValueError`` for what is no digest."""
    if not _NAME.fullmatch(sha256):
        raise ValueError(f"{sha256!r} is not a digest")
    return f"{sha256[:2]}/{sha256}"


def _opened(url: str) -> tuple[Any, str]:
    return fsspec.url_to_fs(url)


def _protocols(files: Any) -> tuple[str, ...]:
    return (files.protocol,) if isinstance(files.protocol, str) else tuple(files.protocol)


def _stored_at(facts: dict[str, Any]) -> float:
    """Each file system names the time in its own way; one that does not tell it never gives up a file."""
    told = next((facts[key] for key in _AGES if facts.get(key) is not None), None)
    if isinstance(told, datetime):
        return told.timestamp()
    return float(told) if isinstance(told, int | float) else float("inf")
