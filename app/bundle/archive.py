"""A directory of members as one tar.zst and back; the index comes first, and nothing is written but what it names.

Of a stranger's archive nothing is believed: names are matched, sizes are bounded, links and devices are refused.
"""

import hashlib
import tarfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, BinaryIO, Final

import zstandard
from pydantic import ValidationError

from app.bundle.index import INDEX, INDEX_BYTES_MAX, BundleIndex, Member
from app.domain.canonical import digest

UNPACKED_MAX: Final = 256 << 30
"""No bundle is larger."""
RATIO_MAX: Final = 200
"""One that unpacks to more than this many times its size, and to more than ``SMALL``, is a bomb."""
SMALL: Final = 256 << 20
LEVEL: Final = 6
CHUNK_BYTES: Final = 1 << 20
OLDER: Final = "verdraft/bundle/v0"


class BundleUnreadable(ValueError):
    """The archive itself, or its index, cannot be read; there is nothing to go on with."""


@dataclass(frozen=True, slots=True)
class Unpacked:
    """An index and what was wrong with the members; all lie in the directory under their paths."""

    root: str
    """The sha256 of the index."""
    index: BundleIndex
    problems: dict[str, str] = field(default_factory=dict)
    """Path → what is wrong with that member."""


def pack(directory: Path, archive: Path) -> str:
    """Pack a finished directory, without times or owners; returns the root digest."""
    content = (directory / INDEX).read_bytes()
    index = BundleIndex.model_validate_json(content)
    compressor = zstandard.ZstdCompressor(LEVEL, write_checksum=True)  # what no member's digest covers is covered too
    with archive.open("wb") as file, compressor.stream_writer(file) as packed, _tar(packed) as tar:
        for name in (INDEX, *(member.path for member in index.members)):
            entry = tarfile.TarInfo(name)
            entry.size = (directory / name).stat().st_size
            with (directory / name).open("rb") as member:
                tar.addfile(entry, member)
    return digest(content)


def root_of(archive: Path) -> str:
    """The root digest by the index alone. Raises ``BundleUnreadable``."""
    with archive.open("rb") as file, _opened(file) as (tar, _):
        return digest(_index_bytes(tar))


def unpack(archive: Path, directory: Path) -> Unpacked:
    """Unpack into an empty directory and compare every digest. Raises ``BundleUnreadable``."""
    with archive.open("rb") as file, _opened(file) as (tar, plain):
        content = _index_bytes(tar)
        unpacked = Unpacked(digest(content), _index(content))
        _refuse_bomb(unpacked.index, archive.stat().st_size)
        expected = {member.path: member for member in unpacked.index.members}
        if len(expected) != len(unpacked.index.members):
            raise BundleUnreadable(f"{INDEX} names a member twice")
        missing = set(expected)
        while (entry := tar.next()) is not None:
            member = expected.get(entry.name)
            if member is None or entry.name not in missing or not entry.isreg():
                unpacked.problems[entry.name] = "not in the index, or there twice, or not a plain file"
                continue
            missing.discard(entry.name)
            if problem := _unpack(tar, entry, member, directory / member.path):
                unpacked.problems[entry.name] = problem
        if plain.read(CHUNK_BYTES).strip(b"\0"):  # tar's padding; at its end the frame's checksum speaks, if it has one
            raise BundleUnreadable("something follows the last member")
    for path in sorted(missing):
        unpacked.problems.setdefault(path, "missing")
    return unpacked


def _unpack(tar: tarfile.TarFile, entry: tarfile.TarInfo, member: Member, target: Path) -> str | None:
    """Also where the sizes differ, within reason: what is in it may say what was changed."""
    content = tar.extractfile(entry)
    if content is None or entry.size > max(SMALL, 2 * member.bytes):
        return f"it has {entry.size} bytes, the index says {member.bytes}"
    target.parent.mkdir(exist_ok=True)
    found = hashlib.sha256()
    with target.open("xb") as file:
        while chunk := content.read(CHUNK_BYTES):
            found.update(chunk)
            file.write(chunk)
    return None if found.hexdigest() == member.sha256 else f"sha256 is {found.hexdigest()}, not {member.sha256}"


def _refuse_bomb(index: BundleIndex, packed: int) -> None:
    total = sum(member.bytes for member in index.members)
    if total > min(UNPACKED_MAX, max(SMALL, RATIO_MAX * packed)):
        raise BundleUnreadable(f"{packed} bytes that claim to unpack to {total}")


def _index_bytes(tar: tarfile.TarFile) -> bytes:
    entry = tar.next()
    if entry is None or entry.name != INDEX or not entry.isreg() or entry.size > INDEX_BYTES_MAX:
        raise BundleUnreadable(f"it does not begin with {INDEX}")
    content: IO[bytes] | None = tar.extractfile(entry)
    return b"" if content is None else content.read()


def _index(content: bytes) -> BundleIndex:
    try:
        return BundleIndex.model_validate_json(content)
    except ValidationError as error:
        if OLDER.encode() in content[:200_000]:
            raise BundleUnreadable(f"its format is {OLDER}: only the version that wrote it verifies it") from error
        raise BundleUnreadable(f"{INDEX} cannot be read: {' '.join(str(error).split())[:500]}") from error


@contextmanager
def _opened(file: BinaryIO) -> Generator[tuple[tarfile.TarFile, IO[bytes]]]:
    """A reader that turns every way in which an archive can be broken into one error."""
    try:
        with zstandard.ZstdDecompressor().stream_reader(file) as plain, tarfile.open(fileobj=plain, mode="r|") as tar:
            yield tar, plain
    except (tarfile.TarError, zstandard.ZstdError, EOFError) as error:
        raise BundleUnreadable(f"not a readable bundle: {error}") from error


def _tar(packed: IO[bytes]) -> tarfile.TarFile:
    return tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT)
