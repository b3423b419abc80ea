"""The sha256 of a model's files, each file read once per change of it and not once per process.

One small book for each directory remembers size, times and inode of what was hashed. As git does, a file
that has only just been changed is never remembered: a second change could leave the same time stamp.
"""

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from app.domain.canonical import canonical_json, digest
from app.domain.vocabulary import Sha256
from worker.filelock import exclusive
from worker.model_files.tree import Entry, ModelRefused, Tree, unreadable

CARD = "README.md"
"""A model's card may be corrected without making it another model."""
CHECKPOINT_BYTES = 256 * 1024**2
"""After a file this large the book is written, so that an interrupted pass does not begin anew."""


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    entry: tuple[str, int, int, int, int, int]
    """The fields of ``Entry``."""
    sha256: Sha256


class _Book(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    directory: str
    """Only for the person who looks into the book."""
    lines: tuple[_Line, ...]


@dataclass(frozen=True, slots=True)
class DigestCache:
    """Books under ``root``; without a ``root`` nothing is remembered. ``clock_ns`` is the wall clock."""

    root: Path | None = None
    clock_ns: Callable[[], int] = time.time_ns

    def sha256s(self, tree: Tree, only: Collection[str] | None = None) -> dict[str, str]:
        """File name → sha256 of every file, or of those named in ``only`` that are there.

        A second process that asks for the same directory waits for the first and finds its work done.
        Raises ``ModelRefused`` where a file changes while it is read.
        """
        wanted = [entry for entry in tree.entries if only is None or entry.name in only]
        if self.root is None:
            return {entry.name: file_sha256(tree.root, entry) for entry in wanted}
        self.root.mkdir(parents=True, exist_ok=True)
        book = self.root / f"{digest(os.fsencode(tree.root.absolute()))[:32]}.json"
        known = _known(book, tree)
        if any(entry.name not in known for entry in wanted):
            with exclusive(book.with_suffix(".lock"), waiting=lambda: None):
                known = self._hash_the_rest(book, tree, wanted)
        return {entry.name: known[entry.name] for entry in wanted}

    def _hash_the_rest(self, book: Path, tree: Tree, wanted: Iterable[Entry]) -> dict[str, str]:
        lasting = _known(book, tree)
        found = dict(lasting)
        try:
            for entry in wanted:
                if entry.name in found:
                    continue
                settled = entry.settled(self.clock_ns())  # before the first byte is read
                found[entry.name] = file_sha256(tree.root, entry)
                if settled:
                    lasting[entry.name] = found[entry.name]
                if entry.size >= CHECKPOINT_BYTES:
                    _write(book, tree, lasting)
        finally:
            _write(book, tree, lasting)
        return found


def tree_digest(sha256s: Mapping[str, str]) -> str:
    """The model's digest: sha256 over the sorted (relative path, sha256) pairs of every file but the card."""
    return _pairs_digest((name, sha256) for name, sha256 in sha256s.items() if name.rpartition("/")[2] != CARD)


def group_digest(sha256s: Mapping[str, str], names: Iterable[str]) -> str | None:
    """As ``tree_digest`` for some of the files; ``None`` where none of them is there."""
    pairs = [(name, sha256s[name]) for name in names if name in sha256s]
    return _pairs_digest(pairs) if pairs else None


def file_sha256(root: Path, entry: Entry) -> str:
    """Hash one file in constant memory. Raises ``ModelRefused`` unless it is what was listed, before and after."""
    try:
        with (root / entry.name).open("rb") as file:
            _require_unchanged(entry, os.fstat(file.fileno()))
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            _require_unchanged(entry, os.fstat(file.fileno()))
    except OSError as error:
        raise unreadable(entry.name, error) from error
    return sha256


def _pairs_digest(pairs: Iterable[tuple[str, str]]) -> str:
    return digest(canonical_json([[name, sha256] for name, sha256 in sorted(pairs)]))


def _require_unchanged(entry: Entry, status: os.stat_result) -> None:
    if Entry.of(entry.name, status) != entry:
        raise ModelRefused.of(entry.name, "changed while it was read", "wait until it is complete, then try again")


def _known(book: Path, tree: Tree) -> dict[str, str]:
    """What the book says of files that are still what they were; a torn or foreign book says nothing."""
    try:
        lines = _Book.model_validate_json(book.read_bytes()).lines
    except (FileNotFoundError, ValidationError):
        return {}
    noted = {line.entry: line.sha256 for line in lines}
    return {entry.name: noted[astuple(entry)] for entry in tree.entries if astuple(entry) in noted}


def _write(book: Path, tree: Tree, sha256s: Mapping[str, str]) -> None:
    """The book appears whole or not at all."""
    directory = os.fsencode(tree.root.absolute()).decode(errors="replace")
    kept = [entry for entry in tree.entries if entry.name in sha256s]
    lines = tuple(_Line(entry=astuple(entry), sha256=sha256s[entry.name]) for entry in kept)
    with tempfile.NamedTemporaryFile("w", dir=book.parent, prefix=".", delete=False) as whole:
        whole.write(_Book(directory=directory, lines=lines).model_dump_json())
    Path(whole.name).replace(book)
