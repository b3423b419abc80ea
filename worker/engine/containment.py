"""Which processes belong to an engine, and how to be sure that none is left.

A member is found by its session id (the leader's pid) or by a tag in its environment, which
survives double forks and new sessions. An orphan is a tagged process whose supervisor is gone.
"""

import ctypes
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from worker.engine.cgroup import Cgroup, left_behind

TAG_VARIABLE = "VERDRAFT_SESSION"
SUPERVISOR_VARIABLE = "VERDRAFT_SUPERVISOR"

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PROC = Path("/proc")
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """The fields of ``/proc/<pid>/stat`` that tell processes apart; ``started`` is in clock ticks since boot."""

    state: str
    session: int
    started: int


def become_subreaper() -> None:
    """Adopt orphans of our descendants, so that they can be found and reaped. Raises ``OSError``."""
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) was refused")


def child_setup(cores: tuple[int, ...], cgroup: Cgroup | None = None) -> Callable[[], None]:
    """What a child does between fork and exec: die with its supervisor, keep to its cores and its cgroup."""
    supervisor = os.getpid()

    def prepare() -> None:
        if cgroup is not None:
            with suppress(OSError):  # then the tags must do, as on a host without
                cgroup.enter()
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != supervisor:  # it died before the request took effect
            os._exit(1)
        if cores:
            os.sched_setaffinity(0, cores)

    return prepare


def tags(tag: str) -> dict[str, str]:
    """The environment variables by which a tree is found again, also after its supervisor's death."""
    return {TAG_VARIABLE: tag, SUPERVISOR_VARIABLE: own_identity()}


def members(tag: str, leader: int) -> frozenset[int]:
    """Live processes of the engine started with ``tag`` whose first process is ``leader``."""
    return frozenset(
        pid for pid, stat in _processes() if leader in (pid, stat.session) or _environment(pid).get(TAG_VARIABLE) == tag
    )


def alive(pids: Iterable[int]) -> frozenset[int]:
    """Those that still run; a zombie does not."""
    return frozenset(pid for pid, _ in _processes()).intersection(pids)


def orphans() -> frozenset[int]:
    """Live tagged processes of this pid namespace whose supervisor no longer runs."""
    return frozenset(pid for pid, _ in _processes() if _is_orphan(pid))


def sweep_orphans() -> frozenset[int]:
    """Kill what a dead supervisor left behind; returns the pids. Other supervisors' engines are untouched."""
    found = orphans()
    kill(found)
    for cgroup in left_behind(runs):  # who has cleared its environment is still in there
        found |= cgroup.members()
        cgroup.kill()
        cgroup.remove()
    return found


def kill(pids: Iterable[int], signal_number: signal.Signals = signal.SIGKILL) -> None:
    """Signal each process that still exists."""
    for pid in pids:
        try:
            os.kill(pid, signal_number)
        except ProcessLookupError:
            continue


def kill_group(leader: int, signal_number: signal.Signals) -> None:
    """Signal the leader's process group, if any of it is left."""
    try:
        os.killpg(leader, signal_number)
    except ProcessLookupError:
        return


def reap(pids: Iterable[int]) -> None:
    """Collect adopted children that have ended, so that no zombie keeps their pid."""
    for pid in pids:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            continue


def _is_orphan(pid: int) -> bool:
    supervisor = _environment(pid).get(SUPERVISOR_VARIABLE)
    return supervisor is not None and _same_pid_namespace(pid) and not runs(supervisor)


def _identity(pid: int) -> str:
    """A pid and when it started: unique until the host reboots."""
    stat = _stat(pid)
    return f"{pid}:{stat.started if stat else 0}"


def own_identity() -> str:
    """This process as ``pid:started``, unique until the host reboots."""
    return _identity(os.getpid())


def runs(identity: str) -> bool:
    """Whether the process of that identity still lives."""
    pid = identity.partition(":")[0]
    return pid.isdigit() and _identity(int(pid)) == identity


def _processes() -> Iterator[tuple[int, ProcessStat]]:
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            stat = _stat(int(entry.name))
            if stat and stat.state not in "ZX":
                yield int(entry.name), stat


def _stat(pid: int) -> ProcessStat | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()  # the command before it may hold spaces and brackets
    return ProcessStat(state=fields[0], session=int(fields[3]), started=int(fields[19]))


def _environment(pid: int) -> dict[str, str]:
    try:
        block = (_PROC / str(pid) / "environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return {}  # gone, or another user's and therefore not ours
    pairs = (entry.partition(b"=") for entry in block.split(b"\0"))
    return {key.decode(errors="replace"): value.decode(errors="replace") for key, _, value in pairs}


def _same_pid_namespace(pid: int) -> bool:
    try:
        return (_PROC / str(pid) / "ns/pid").readlink() == (_PROC / "self/ns/pid").readlink()
    except OSError:
        return False
