"""The newest value of each quantity in a sampler's file that grows; what was before is not kept."""

from dataclasses import dataclass
from pathlib import Path

from worker.telemetry.recording import Follower, Recording, RecordingRefused


@dataclass(frozen=True, slots=True)
class Value:
    """One reading, on the monotonic clock."""

    at_ns: int
    value: float


class Newest:
    """Follows one file on its own, beside whoever reads it whole."""

    def __init__(self, path: Path) -> None:
        self._follower: Follower | None = Follower(path)

    def read(self) -> dict[tuple[str | None, str], Value]:
        """(device or ``None`` for the host, quantity) → its newest value; nothing of a file that is no recording."""
        try:
            recording = self._follower and self._follower.read()
        except RecordingRefused:  # what that means for the run is said by who reads it for the run
            self._follower = None
            return {}
        return {} if recording is None else _newest(recording)


def _newest(recording: Recording) -> dict[tuple[str | None, str], Value]:
    found: dict[tuple[str | None, str], Value] = {}
    for key, column in recording.columns.items():
        if column.values:
            found[key] = Value(column.at_ns[-1], column.values[-1])
            del column.at_ns[:-1], column.values[:-1]
    return found
