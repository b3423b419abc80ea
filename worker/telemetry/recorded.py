"""A recording in the place of GPUs, for hosts without: each question is answered with what was true that long ago.

At its end it begins anew; energy goes on from where it was.
"""

import time
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Any

from worker.telemetry.names import ENERGY, FAST, PROCESSES, SLOW, Reading
from worker.telemetry.occupancy import EnginePids
from worker.telemetry.recording import Absence, Column, read_recording

NOT_RECORDED = "the recording has no such value"


class RecordedReader:
    """Answers like ``NvmlReader`` with what a sampler has written; ``uuids`` are those of the recording.

    Raises ``RecordingRefused`` where the file is not one, or knows no GPU.
    """

    def __init__(self, path: Path, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._recording = read_recording(path)
        self.uuids = tuple(dict.fromkeys(group.device for group in self._recording.head.groups if group.device))
        self._clock = clock
        self._began_ns = clock()
        self._length_ns = max(1, self._recording.newest_ns - self._recording.head.started_monotonic_ns)

    def facts(self) -> tuple[dict[str, Any], ...]:
        """The recorded GPUs' own."""
        return self._recording.head.devices

    def fast(self, uuid: str) -> Reading:
        """Recorded power and clocks."""
        return {name: self._at(uuid, name) for name in FAST}

    def slow(self, uuid: str) -> Reading:
        """The recorded slow quantities."""
        return {name: self._at(uuid, name) for name in SLOW}

    def processes(self, uuid: str, engine: EnginePids) -> Reading:  # noqa: ARG002  (nobody's pids are in a recording)
        """The recorded sums: whose processes they were was told apart then."""
        return {name: self._at(uuid, name) for name in PROCESSES}

    def _at(self, uuid: str, name: str) -> float | str:
        laps, into_ns = divmod(self._clock() - self._began_ns, self._length_ns)
        at_ns = self._recording.head.started_monotonic_ns + into_ns
        if (absence := self._absence(uuid, name, at_ns)) is not None:
            return absence.reason
        column = self._recording.columns.get((uuid, name), Column())
        if not column.values:
            return NOT_RECORDED
        value = column.values[max(0, bisect_right(column.at_ns, at_ns) - 1)]
        return value + laps * (column.values[-1] - column.values[0]) if name == ENERGY else value

    def _absence(self, uuid: str, name: str, at_ns: int) -> Absence | None:
        for absence in self._recording.absences:
            is_it = (absence.device, absence.name) == (uuid, name)
            if is_it and absence.from_ns <= at_ns and (absence.to_ns is None or at_ns < absence.to_ns):
                return absence
        return None
