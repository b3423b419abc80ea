"""Which cores compute and which measure, so that neither steals from the other."""

import os
import platform
import re
import resource
from dataclasses import dataclass
from pathlib import Path

from app.domain.vocabulary import NS_PER_S

_CAP_SYS_NICE = 23
_STEAL_COLUMN = 8


@dataclass(frozen=True, slots=True)
class CoreSplit:
    """``engine`` (the cores that compute) and ``client`` are disjoint where the host has two cores or more.

    ``engine_tree`` is where the engine's other processes may run: on all cores where the client can
    preempt them, else on the computing ones only.
    """

    engine: tuple[int, ...]
    engine_tree: tuple[int, ...]
    client: tuple[int, ...]

    @property
    def client_is_alone(self) -> bool:
        """Whether the client may poll without sleeping: what it shares a core with would pay for it."""
        return set(self.client).isdisjoint(self.engine)


def split_cores(places: int = 1) -> CoreSplit:
    """The engine computes on the first cores, the client has the last one; with several ``places`` all share all."""
    cores = tuple(sorted(os.sched_getaffinity(0) | set(range(os.cpu_count() or 1))))
    if not cores[1:] or places > 1:
        return CoreSplit(cores, cores, cores)
    return CoreSplit(cores[:-1], cores if may_preempt() else cores[:-1], cores[-1:])


def may_preempt() -> bool:
    """Whether the client will be granted a real-time priority: by its limit, or by CAP_SYS_NICE."""
    if resource.getrlimit(resource.RLIMIT_RTPRIO)[0] != 0:
        return True
    status = Path("/proc/self/status").read_text()
    effective = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> _CAP_SYS_NICE & 1)


def cpu_model() -> str:
    """The processor by its own name, or by its architecture where it has none."""
    named = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return named[1].strip() if named else platform.machine()


def stolen_cpu_ns() -> int:
    """Processor time since boot that the hypervisor gave to others while this host wanted it; 0 on bare metal."""
    total = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(total[_STEAL_COLUMN]) * NS_PER_S // os.sysconf("SC_CLK_TCK")
