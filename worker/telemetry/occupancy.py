"""Whose processes a driver lists on a GPU, where its pids can be told from ours.

In a pid namespace that is not the host's a driver lists nothing, or pids that mean something else here. Only once
it has named a process of the engine do its pids count there, and then those it hides cannot be counted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from worker.telemetry.names import ENGINE_DEVICE_MEMORY, FOREIGN_PROCESSES, PROCESSES, Reading
from worker.telemetry.processes import is_alive, sees_every_process

EnginePids = Callable[[], frozenset[int]]
NOT_TOLD = "the driver does not tell the memory of a process"


@dataclass(frozen=True, slots=True)
class Occupant:
    """A process with a context on a GPU; its memory where the driver tells it."""

    pid: int
    memory_bytes: int | None


class Occupants:
    """Sorts what is listed on one GPU into the engine's and strangers'."""

    def __init__(self) -> None:
        self._pids_match = sees_every_process()
        self._unknown: frozenset[int] = frozenset()

    def read(self, listed: Sequence[Occupant], engine: frozenset[int]) -> Reading:
        """The engine's memory and the number of strangers; ``engine`` must be newer than ``listed``."""
        ours = [occupant for occupant in listed if occupant.pid in engine]
        self._pids_match = self._pids_match or bool(ours)
        if not self._pids_match:
            return dict.fromkeys(PROCESSES, _mismatch(len(listed)))
        return {ENGINE_DEVICE_MEMORY: _memory(ours), FOREIGN_PROCESSES: self._strangers(listed, engine)}

    def _strangers(self, listed: Sequence[Occupant], engine: frozenset[int]) -> int:
        """One that nobody here can see counts from its second reading on: at first it may be ours, and just gone."""
        strangers = {occupant.pid for occupant in listed} - engine
        seen = {pid for pid in strangers if pid in self._unknown or is_alive(pid)}
        self._unknown = frozenset(strangers)
        return len(seen)


def _memory(ours: Sequence[Occupant]) -> int | str:
    told = [occupant.memory_bytes for occupant in ours if occupant.memory_bytes is not None]
    return sum(told) if len(told) == len(ours) else NOT_TOLD


def _mismatch(count: int) -> str:
    return (
        "this pid namespace is not the host's, and the driver has named no process of the engine "
        f"({'it lists none' if count == 0 else 'the pids that it lists are others'})"
    )
