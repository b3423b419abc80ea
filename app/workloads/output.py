"""Writes a trace as it comes, line by line, and puts it in place only once it is whole."""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

READABLE = 0o644


@dataclass(frozen=True, slots=True)
class Written:
    """A finished file: its digest is the trace's identity."""

    path: Path
    digest: str
    size: int


def write_lines(path: Path, lines: Iterable[bytes], *, mode: int = READABLE) -> Written:
    """Write the lines to ``path``, or nothing at all; an existing file is replaced in one step."""
    sha256 = hashlib.sha256()
    size = 0
    with NamedTemporaryFile("wb", dir=path.parent, prefix=f".{path.name}-", delete=False) as file:
        try:
            for line in lines:
                sha256.update(line + b"\n")
                size += file.write(line + b"\n")
            file.close()
            Path(file.name).chmod(mode)
            os.replace(file.name, path)  # noqa: PTH105  (the name is text here)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
    return Written(path, sha256.hexdigest(), size)
