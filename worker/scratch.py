"""Working directories of sessions: short paths for sockets, and removed also when their worker was killed."""

import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from worker.engine import containment

_PREFIX = "verdraft"


@contextmanager
def scratch_directory() -> Generator[Path]:
    """A directory that is gone afterwards; its name says whose it is."""
    name = f"{_PREFIX}-{containment.own_identity().replace(':', '-')}-"
    with tempfile.TemporaryDirectory(prefix=name, ignore_cleanup_errors=True) as directory:
        yield Path(directory)


def sweep_scratch() -> None:
    """Remove what workers that no longer run have left behind."""
    for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}-*-*-*"):
        pid, started = directory.name.split("-")[1:3]
        if pid.isdigit() and started.isdigit() and not containment.runs(f"{pid}:{started}"):
            shutil.rmtree(directory, ignore_errors=True)
