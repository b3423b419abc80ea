"""A cgroup v2 of the engine's own, where this process may make one.

A process can leave its session and clear its environment, but not its cgroup; so nothing escapes ``kill``.
"""

import errno
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_OWN = Path("/proc/self/cgroup")
_PREFIX = "verdraft"
_FOREIGN = 0
"""What the kernel says of a process that is not in the reader's pid namespace."""
REMOVE_PATIENCE_S = 2.0


@dataclass(frozen=True, slots=True)
class Cgroup:
    """A directory of the cgroup v2 file system."""

    path: Path

    def enter(self) -> None:
        """Move the calling process in; children follow. Safe between fork and exec."""
        descriptor = os.open(self.path / "cgroup.procs", os.O_WRONLY)
        os.write(descriptor, b"0")
        os.close(descriptor)

    def members(self) -> frozenset[int]:
        """Pids of the processes inside."""
        try:
            return frozenset(map(int, (self.path / "cgroup.procs").read_text().split()))
        except OSError:
            return frozenset()

    def kill(self) -> None:
        """SIGKILL to everything inside, forks under way included (Linux 5.14)."""
        try:
            descriptor = os.open(self.path / "cgroup.kill", os.O_WRONLY)  # to create it would be refused otherwise
            os.write(descriptor, b"1")
            os.close(descriptor)
        except OSError as refused:
            if refused.errno not in {errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP}:
                raise

    def remove(self) -> None:
        """Remove the directory; it stays where a process cannot be killed, and says so by being there."""
        deadline = time.monotonic() + REMOVE_PATIENCE_S
        while self.path.exists() and time.monotonic() < deadline:
            try:
                self.path.rmdir()
            except OSError:
                time.sleep(0.05)


def make_cgroup(name: str) -> Cgroup | None:
    """A new cgroup below this process's own; ``None`` where there is no cgroup v2 or it is not delegated to us."""
    parent = _own_directory()
    if parent is None:
        return None
    path = parent / f"{_PREFIX}-{re.sub(r'[^A-Za-z0-9-]', '-', name)}"
    try:
        path.mkdir(exist_ok=True)
    except OSError:
        return None
    return Cgroup(path) if os.access(path / "cgroup.procs", os.W_OK) else None


def left_behind(lives: Callable[[str], bool]) -> tuple[Cgroup, ...]:
    """Those whose supervisor, named first in their name, lives no more; what another pid namespace has is not ours."""
    parent = _own_directory()
    named = () if parent is None else parent.glob(f"{_PREFIX}-*-*-*")
    abandoned = (Cgroup(path) for path in named if not lives(":".join(path.name.split("-")[1:3])))
    return tuple(cgroup for cgroup in abandoned if _FOREIGN not in cgroup.members())


def _own_directory() -> Path | None:
    own = next((line[3:] for line in _OWN.read_text().splitlines() if line.startswith("0::")), None)
    mounts = (line.split(" - ") for line in _MOUNTS.read_text().splitlines())
    mounted = next((Path(left.split()[4]) for left, right in mounts if right.startswith("cgroup2 ")), None)
    return None if own is None or mounted is None else mounted / own.lstrip("/")
