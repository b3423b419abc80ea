"""One client's command on the core that every client gets: what it cost, its whole tree included."""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.1
_MEMORY_POLL_S = 1.0
"""Walking the pages of a large process takes milliseconds."""

_KIB = 1024
OUTPUT_NAME = "output.txt"


@dataclass(frozen=True, slots=True)
class Usage:
    """``cpu_s`` counts user and system time of every process that the command started, its start-up included."""

    returncode: int
    """-9 where it ran out of time."""
    wall_s: float
    cpu_s: float
    peak_pss_bytes: int
    """Of all its processes together; what they share counts once."""


def adopt_orphans() -> None:
    """Whoever loses its parent becomes a child of this process, so that its cost is counted, too."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def run(argv: Sequence[str], environment: Mapping[str, str], directory: Path, core: int, timeout_s: float) -> Usage:
    """Run to its end, and end what it leaves behind. Its output is in ``directory``."""
    started_s = time.monotonic()
    with (directory / OUTPUT_NAME).open("wb") as output, _on_core(core):
        process = subprocess.Popen(
            argv, cwd=directory, env=_minimal() | dict(environment), stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    watch = _Watch(process.pid)
    while not watch.ended and time.monotonic() - started_s < timeout_s:
        watch.look()
        time.sleep(_POLL_S)
    wall_s = time.monotonic() - started_s
    watch.end_all()
    process.returncode = watch.returncode  # it was reaped here, not by the Popen
    return Usage(watch.returncode, wall_s, watch.cpu_s, watch.peak_pss_bytes)


@contextmanager
def _on_core(core: int) -> Generator[None]:
    """What is started here inherits the core."""
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, everywhere)


def _minimal() -> dict[str, str]:
    return {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}


class _Watch:
    """Follows one tree of processes; every end of one adds its processor time."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._seen = {pid}
        self.returncode = -signal.SIGKILL
        self.ended = False
        self.cpu_s = 0.0
        self.peak_pss_bytes = 0
        self._weigh_at_s = 0.0

    def look(self) -> None:
        tree = list(_tree(self._pid)) if not self.ended else []
        self._seen.update(tree)
        if tree and time.monotonic() >= self._weigh_at_s:
            self._weigh_at_s = time.monotonic() + _MEMORY_POLL_S
            self.peak_pss_bytes = max(self.peak_pss_bytes, sum(map(_pss_bytes, tree)))
        for pid in list(self._seen):
            self._reap(pid)

    def end_all(self) -> None:
        """Kill what is left, and count it; an orphan is a child by now, and can be waited for."""
        self.look()
        for pid in list(self._seen):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until_s = time.monotonic() + 5
        while self._seen and time.monotonic() < until_s:
            self.look()
            time.sleep(_POLL_S)

    def _reap(self, pid: int) -> None:
        """Only children and orphans can be; the time of others reaches their parents."""
        try:
            ended, status, usage = os.wait4(pid, os.WNOHANG)
        except ChildProcessError:
            if not Path(f"/proc/{pid}").exists():
                self._seen.discard(pid)
            return
        if ended:
            self._seen.discard(pid)
            self.cpu_s += usage.ru_utime + usage.ru_stime
            if pid == self._pid:
                self.ended, self.returncode = True, os.waitstatus_to_exitcode(status)


def _tree(pid: int) -> Iterator[int]:
    yield pid
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _tree(int(child))


def _pss_bytes(pid: int) -> int:
    """Its private pages, and its part of those that it shares."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * _KIB
    return 0
