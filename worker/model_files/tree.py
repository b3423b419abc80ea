"""The files of one model directory: listed once, links kept inside, sizes bounded, JSON read strictly.

A listing is a value. Two equal listings whose files have settled stand for the same content.
"""

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from app.domain.errors import DomainError
from app.domain.vocabulary import NS_PER_S

FILES_MAX = 10_000
DEPTH_MAX = 16
SETTLED_NS = 2 * NS_PER_S
"""A file younger than this may change again within one tick of its time stamp, so that nothing would show it."""
JSON_BYTES_MAX = 16 * 1024**2
INTEGER_MAX = 2**63 - 1

JsonObject = dict[str, Any]


class ModelRefused(DomainError):
    """A model directory cannot be read or pinned; each problem's ``field`` is the file it is about."""

    title = "The model cannot be used"


@dataclass(frozen=True, slots=True)
class Entry:
    """One regular file. ``name`` is relative to the directory, with slashes; the rest is its ``stat``."""

    name: str
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int

    @classmethod
    def of(cls, name: str, status: os.stat_result) -> "Entry":
        """The file of that name as the operating system describes it."""
        times = (status.st_mtime_ns, status.st_ctime_ns)
        return cls(name, status.st_size, *times, status.st_ino, status.st_dev)

    def settled(self, now_ns: int) -> bool:
        """Whether a later change is sure to leave another time stamp; ``ctime`` cannot be set back as ``mtime`` can."""
        return max(self.mtime_ns, self.ctime_ns) + SETTLED_NS <= now_ns


@dataclass(frozen=True, slots=True)
class Tree:
    """A model directory and its files, sorted by name."""

    root: Path
    entries: tuple[Entry, ...]

    def __contains__(self, name: str) -> bool:
        return self.find(name) is not None

    def find(self, name: str) -> Entry | None:
        """The file of that name, or ``None``."""
        return next((entry for entry in self.entries if entry.name == name), None)

    def settled(self, now_ns: int) -> bool:
        """Whether every file has been left alone long enough."""
        return all(entry.settled(now_ns) for entry in self.entries)

    def text(self, name: str, *, limit: int = JSON_BYTES_MAX) -> str:
        """A UTF-8 file of at most ``limit`` bytes. Raises ``ModelRefused``."""
        if name not in self:
            raise ModelRefused.of(name, "is missing", "restore the file")
        try:
            with (self.root / name).open("rb") as file:
                content = file.read(limit + 1)
        except OSError as error:
            raise unreadable(name, error) from error
        if len(content) > limit:
            raise ModelRefused.of(name, f"has more than {limit:,} bytes", "check where it comes from")
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise ModelRefused.of(name, f"is not UTF-8 (byte {error.start})", "restore the file") from error

    def json(self, name: str, *, limit: int = JSON_BYTES_MAX) -> JsonObject:
        """A file that holds one JSON object. Raises ``ModelRefused``."""
        return parse_object(name, self.text(name, limit=limit))

    def json_or_empty(self, name: str) -> JsonObject:
        """As ``json``; a file that is not there says nothing."""
        return self.json(name) if name in self else {}


def scan(root: Path, *, links_within: Path | None = None) -> Tree:
    """List the files under ``root``. Links must lead to files inside ``links_within`` (by default ``root`` itself).

    Raises ``ModelRefused`` for anything whose content the listing would not cover.
    """
    fence = (links_within or root).resolve()
    found: list[Entry] = []
    try:
        for entry in _walk(root, root, fence, DEPTH_MAX):
            found.append(entry)
            if len(found) > FILES_MAX:
                raise ModelRefused.of(".", f"has more than {FILES_MAX:,} files", "keep only the model's own files")
    except OSError as error:
        raise unreadable(str(error.filename or "."), error) from error
    return Tree(root, tuple(sorted(found, key=lambda entry: entry.name)))


def parse_object(name: str, text: str | bytes) -> JsonObject:
    """One JSON object; ``name`` is the file it came from. Raises ``ModelRefused``."""
    try:
        value: object = json.loads(text)
    except RecursionError as error:
        raise ModelRefused.of(name, "is nested too deeply", "check where it comes from") from error
    except ValueError as error:
        raise ModelRefused.of(name, f"is not JSON: {error}", "restore the file") from error
    if not is_object(value):
        raise ModelRefused.of(name, "is not a JSON object", "restore the file")
    return value


def is_object(value: object) -> TypeGuard[JsonObject]:
    """Whether parsed JSON is an object."""
    return isinstance(value, dict)


def is_clean(text: str) -> bool:
    """Whether a database and a page can hold the text: no NUL, no lone surrogate."""
    return "\x00" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def storable(text: str) -> str:
    """The text with a question mark for whatever ``is_clean`` forbids."""
    return text.encode(errors="replace").decode().replace("\x00", "?")


def is_count(value: object) -> TypeGuard[int]:
    """Whether parsed JSON is a whole number from 0 on; ``true`` is none."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= INTEGER_MAX


def unreadable(name: str, error: OSError) -> ModelRefused:
    """The operating system's refusal in our form."""
    return ModelRefused.of(name, f"cannot be read: {error.strerror or error}", "check the file and its permissions")


def _walk(root: Path, directory: Path, fence: Path, depth: int) -> Iterator[Entry]:
    if depth == 0:
        raise ModelRefused.of(_name(root, directory), f"is more than {DEPTH_MAX} levels deep", "flatten the directory")
    with os.scandir(directory) as listed:
        children = [(Path(child.path), child.is_dir(follow_symlinks=False)) for child in listed]
    for child, is_directory in children:
        if is_directory:
            yield from _walk(root, child, fence, depth - 1)
        else:
            yield _entry(_name(root, child), child, fence)


def _entry(name: str, path: Path, fence: Path) -> Entry:
    if path.is_symlink():
        _require_inside(name, path, fence)
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ModelRefused.of(name, "is not a regular file", "remove it, or copy what it leads to in its place")
    return Entry.of(name, status)


def _require_inside(name: str, link: Path, fence: Path) -> None:
    try:
        target = link.resolve(strict=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop, before Python 3.13
        raise ModelRefused.of(name, "is a link to nothing", "complete the download, or restore the file") from error
    if not target.is_relative_to(fence):
        raise ModelRefused.of(name, "is a link that leaves the directory", "copy the file in its place (cp -L)")


def _name(root: Path, path: Path) -> str:
    name = path.relative_to(root).as_posix()
    if not is_clean(name):
        raise ModelRefused.of(ascii(name), "has a name that is not UTF-8", "rename the file")
    return name
