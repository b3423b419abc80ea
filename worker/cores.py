"""Which cores serve and which measure, so that neither steals from the other."""

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CoreSplit:
    """Disjoint sets where the host has two cores or more; both are everything where it has one."""

    engine: tuple[int, ...]
    client: tuple[int, ...]


def split_cores() -> CoreSplit:
    """The engine gets the first cores, the client the last one."""
    cores = sorted(os.sched_getaffinity(0) | set(range(os.cpu_count() or 1)))
    if not cores[1:]:
        return CoreSplit(tuple(cores), tuple(cores))
    return CoreSplit(tuple(cores[:-1]), (cores[-1],))
