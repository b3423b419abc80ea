"""Trees of processes and what they use, by ``/proc`` alone: one read a process, and none for known strangers.

A process belongs to a tree as its root, by its parent, by a session that a member leads, or by a mark in its
environment, which outlives double forks; once a member, always one, since programs overwrite their environment.
"""

import os
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_INITIAL_NAMESPACE = 0xEFFFFFFC
"""The inode that Linux gives the pid namespace of the host."""
_ENDED = (b"Z", b"X")
"""An orphan of the engine stays so until the worker, to which it fell, has waited for it."""
_YOUTH_S = 3.0
"""Between fork and exec a process still has its parent's environment, so young ones are looked at again."""


@dataclass(frozen=True, slots=True)
class Usage:
    """One process as ``/proc/<pid>/stat`` has it; times in clock ticks, ``started`` since boot."""

    parent: int
    session: int
    own_ticks: int
    ticks: int
    """Its own and those of the children that it has waited for."""
    started: int
    rss_bytes: int


def usage(pid: int) -> Usage | None:
    """What the process uses; ``None`` where there is none, or only its entry is left for its parent to read."""
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    fields = text.rpartition(b")")[2].split()  # the command before it may hold spaces and brackets
    if fields[0] in _ENDED:
        return None
    own, waited_for = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
    return Usage(
        parent=int(fields[1]),
        session=int(fields[3]),
        own_ticks=own,
        ticks=own + waited_for,
        started=int(fields[19]),
        rss_bytes=int(fields[21]) * _PAGE_BYTES,
    )


class Tree:
    """The processes that began with ``roots`` or carry ``mark``; grows and shrinks with each ``Census.take``."""

    def __init__(self, roots: tuple[int, ...] = (), mark: str | None = None) -> None:
        self._roots = set(roots)
        self._mark = None if mark is None else mark.encode()
        self._ever: set[int] = set(roots)
        self._ended_ticks = 0
        self._most_ticks = 0
        self.members: dict[int, Usage] = {}

    @property
    def cpu_s(self) -> float:
        """Processor seconds of all that were ever seen and of all they waited for; never decreases."""
        now = self._ended_ticks + sum(member.ticks for member in self.members.values())
        self._most_ticks = max(self._most_ticks, now)
        return self._most_ticks / _TICKS_PER_S

    @property
    def rss_bytes(self) -> int:
        """Sum of the members' resident memory; what they share counts once for each."""
        return sum(member.rss_bytes for member in self.members.values())

    def look_again(self) -> None:
        """Read each member anew. The time of one that has ended is its parent's, if that is a member and lives."""
        now = {pid: found for pid, last in self.members.items() if (found := _still(pid, last)) is not None}
        gone = [last for pid, last in self.members.items() if pid not in now]
        self._ended_ticks += sum(last.ticks for last in gone if last.parent not in now)
        self.members = now

    def adopts(self, pid: int, found: Usage) -> bool:
        """Whether the process belongs here; if so it is a member from now on."""
        in_session = found.session in self._ever and found.session != pid  # else the pid was only given again
        kin = pid in self._roots or found.parent in self.members or in_session or self._marks(pid)
        if kin:
            self._roots.discard(pid)
            self._ever.add(pid)
            self.members[pid] = found
        return kin

    def _marks(self, pid: int) -> bool:
        if self._mark is None:
            return False
        try:
            return self._mark in (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
        except OSError:
            return False


class Census:
    """Finds new processes and sorts them into trees; strangers are remembered and not read again."""

    def __init__(self, *trees: Tree) -> None:
        self._trees = trees
        self._strangers: set[int] = set()

    def take(self) -> None:
        """Look at all that is new, and again at every member."""
        for tree in self._trees:
            tree.look_again()
        present = {int(name) for name in os.listdir(_PROC) if name.isdigit()}  # noqa: PTH208  (ten times cheaper)
        self._strangers &= present
        known = self._strangers.union(*(tree.members for tree in self._trees))
        unsorted = {pid: found for pid in sorted(present - known) if (found := usage(pid)) is not None}
        while adopted := [pid for pid, found in unsorted.items() if any(t.adopts(pid, found) for t in self._trees)]:
            for pid in adopted:
                del unsorted[pid]
        self._strangers.update(pid for pid, found in unsorted.items() if _age_s(found) > _YOUTH_S)


def _still(pid: int, last: Usage) -> Usage | None:
    found = usage(pid)
    return found if found is not None and found.started == last.started else None


def is_alive(pid: int) -> bool:
    """Whether this pid namespace has such a process."""
    return (_PROC / str(pid)).exists()


def sees_every_process() -> bool:
    """Whether this is the host's own pid namespace, so that a driver's pids mean what ours do."""
    try:
        return (_PROC / "self/ns/pid").stat().st_ino == _INITIAL_NAMESPACE
    except OSError:
        return False


def _age_s(found: Usage) -> float:
    return float((_PROC / "uptime").read_bytes().split()[0]) - found.started / _TICKS_PER_S
