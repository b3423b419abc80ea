"""One engine per accelerator and host: a lock that the kernel releases when its holder dies."""

import fcntl
import os
from pathlib import Path
from types import TracebackType


class HostLock:
    """``with HostLock(directory) as ours``: ``ours`` is false while another worker of this host holds it."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "accelerator-0.lock"
        self._descriptor: int | None = None

    def __enter__(self) -> bool:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
