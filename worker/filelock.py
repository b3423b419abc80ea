"""A lock between processes that the kernel releases when its holder dies."""

import fcntl
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusive(path: Path, *, waiting: Callable[[], None]) -> Generator[None, None, None]:
    """Hold the lock file ``path``; ``waiting`` is called once if somebody else holds it."""
    with path.open("a") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield
