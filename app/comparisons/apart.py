"""A large report is computed in a process of its own, so that this one goes on answering, and at low priority.

``python -m app.comparisons.apart DIRECTORY`` writes the report of the evidence in the directory beside it.
"""

import asyncio
import json
import os
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final

from app.bundle.contents import open_contents
from app.domain.canonical import canonical_model
from app.domain.errors import EvidenceRefused, FieldProblem
from app.domain.report import build_report
from app.settings import PROJECT_ROOT

NICENESS: Final = 10
"""Whoever is being measured on this host comes first."""
REFUSED: Final = 3
SAID_MAX: Final = 2000
_REPORT: Final = ".report.json"
_REFUSAL: Final = ".refusal.json"


async def computed_apart(directory: Path) -> bytes:
    """The canonical JSON of the report of an unpacked bundle; raises ``EvidenceRefused``."""
    argv = (sys.executable, "-m", "app.comparisons.apart", str(directory))
    process = await asyncio.create_subprocess_exec(*argv, cwd=PROJECT_ROOT, stderr=asyncio.subprocess.PIPE)
    try:
        _, said = await process.communicate()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise
    if process.returncode == REFUSED:
        problems = json.loads(_beside(directory, _REFUSAL).read_bytes())
        raise EvidenceRefused(*(FieldProblem(**problem) for problem in problems))
    if process.returncode:
        last = said.decode("utf-8", "replace")[-SAID_MAX:]
        raise RuntimeError(f"computing a report ended with {process.returncode}: {last}")
    return _beside(directory, _REPORT).read_bytes()


def main(directory: Path) -> int:
    """What the process does; its exit status."""
    os.nice(NICENESS)
    try:
        report = build_report(open_contents(directory).evidence())
    except EvidenceRefused as refused:
        _beside(directory, _REFUSAL).write_text(json.dumps([asdict(problem) for problem in refused.problems]))
        return REFUSED
    _beside(directory, _REPORT).write_bytes(canonical_model(report))
    return 0


def _beside(directory: Path, suffix: str) -> Path:
    """Not inside: all that lies in the directory becomes the bundle."""
    return directory.parent / f"{directory.name}{suffix}"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
