"""The file of a sampler: a head in JSON, then a line for each group of values that were read together.

``3,81725000123,212.4,1980,`` is group 3 of the head, its time on the monotonic clock, and its values in the head's
order, empty where there is none. ``!`` begins a reason why (``null``: it is there again), ``.`` the end.
"""

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FORMAT = "verdraft-telemetry"
VERSION = 1


class RecordingRefused(ValueError):
    """The file is not what a sampler writes; the message names the file and the line."""


@dataclass(frozen=True, slots=True)
class Group:
    """Quantities that are read together; those of the host have no ``device``."""

    device: str | None
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Head:
    """``devices`` are the fields of the domain's ``Device``; ``replayed`` names the recording that stands in."""

    started_monotonic_ns: int
    started_wall_ns: int
    groups: tuple[Group, ...]
    devices: tuple[dict[str, Any], ...] = ()
    replayed: str | None = None


@dataclass(slots=True)
class Absence:
    """Why a quantity was not there, from when, and until when; ``None``: it never came back."""

    device: str | None
    name: str
    reason: str
    from_ns: int
    to_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """One quantity in time."""

    at_ns: list[int] = field(default_factory=list[int])
    values: list[float] = field(default_factory=list[float])


@dataclass(slots=True)
class Recording:
    """A parsed file. ``ended_ns`` is ``None`` where it was cut off, or is still being written."""

    head: Head
    columns: dict[tuple[str | None, str], Column]
    absences: list[Absence]
    ended_ns: int | None = None
    newest_ns: int = 0


class Writer:
    """Appends to an open descriptor, a line in one piece, so that a kill cuts between lines."""

    def __init__(self, descriptor: int, head: Head) -> None:
        self._descriptor = descriptor
        self._groups = head.groups
        self._reasons: dict[tuple[int, str], str | None] = {}
        self._write(json.dumps({"format": FORMAT, "version": VERSION, **asdict(head)}))

    def add(self, group: int, at_ns: int, reading: Mapping[str, float | str]) -> None:
        """A line of values; before it what is missing now, or is there again."""
        values: list[str] = []
        for name in self._groups[group].names:
            value = reading.get(name, "it was not read")
            self._note(group, name, at_ns, value if isinstance(value, str) else None)
            values.append("" if isinstance(value, str) else repr(value))
        self._write(f"{group},{at_ns},{','.join(values)}")

    def end(self, at_ns: int) -> None:
        """Say that this is all, and that nothing was cut off."""
        self._write("." + json.dumps({"at_ns": at_ns}))

    def _note(self, group: int, name: str, at_ns: int, reason: str | None) -> None:
        if self._reasons.get((group, name)) == reason:
            return
        self._write("!" + json.dumps({"group": group, "name": name, "at_ns": at_ns, "reason": reason}))
        self._reasons[group, name] = reason

    def _write(self, line: str) -> None:
        left = memoryview(f"{line}\n".encode())
        while left:
            left = left[os.write(self._descriptor, left) :]


class Follower:
    """Reads a file that may still grow: each time only what is new."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._lines = 0
        self._recording: Recording | None = None

    def read(self) -> Recording | None:
        """Everything so far, if it has begun; half a last line is left for later. Raises ``RecordingRefused``."""
        for line in self._new_lines():
            self._lines += 1
            if self._recording is None:
                self._recording = _begun(self._path, line)
                continue
            try:
                _LINES.get(line[:1], _add_values)(self._recording, line)
            except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
                raise RecordingRefused(f"{self._path.name}, line {self._lines}: {error}") from error
        return self._recording

    def _new_lines(self) -> list[str]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                whole = file.read().rpartition(b"\n")[0]
            lines = whole.decode().split("\n") if whole else []
        except (OSError, UnicodeDecodeError) as error:
            raise RecordingRefused(f"{self._path.name} cannot be read: {error}") from error
        self._offset += len(whole) + bool(whole)
        return lines


def read_recording(path: Path) -> Recording:
    """Parse a whole file; half a last line is left out. Raises ``RecordingRefused``."""
    recording = Follower(path).read()
    if recording is None:
        raise RecordingRefused(f"{path.name} is empty")
    return recording


def _begun(path: Path, line: str) -> Recording:
    try:
        fields = json.loads(line)
        kind, version = fields.pop("format"), fields.pop("version")
        groups = tuple(Group(g["device"], tuple(g["names"])) for g in fields.pop("groups"))
        head = Head(groups=groups, devices=tuple(fields.pop("devices")), **fields)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordingRefused(f"{path.name} does not begin with the head of a {FORMAT} file: {error!r}") from error
    if (kind, version) != (FORMAT, VERSION):
        raise RecordingRefused(f"{path.name} is {kind} {version}; this program reads {FORMAT} {VERSION}")
    columns = {(group.device, name): Column() for group in groups for name in group.names}
    return Recording(head, columns, [])


def _add_values(recording: Recording, line: str) -> None:
    number, at, *texts = line.split(",")
    group, at_ns = _group(recording, int(number)), int(at)
    if len(texts) != len(group.names):
        raise ValueError(f"{len(texts)} values for the {len(group.names)} quantities of group {number}")
    for name, value in _told(group, texts):
        column = recording.columns[group.device, name]
        if column.at_ns and at_ns < column.at_ns[-1]:
            raise ValueError(f"{name} was read before the value that precedes it")
        column.at_ns.append(at_ns)
        column.values.append(value)
    recording.newest_ns = max(recording.newest_ns, at_ns)


def _told(group: Group, texts: list[str]) -> Iterator[tuple[str, float]]:
    for name, text in zip(group.names, texts, strict=True):
        if text:
            value = float(text)
            if not math.isfinite(value):
                raise ValueError(f"{name} is {text}")
            yield name, value


def _add_reason(recording: Recording, line: str) -> None:
    said = json.loads(line[1:])
    device, name, at_ns, reason = _group(recording, said["group"]).device, said["name"], said["at_ns"], said["reason"]
    for absence in recording.absences:
        if (absence.device, absence.name, absence.to_ns) == (device, name, None):
            absence.to_ns = at_ns
    if reason is not None:
        recording.absences.append(Absence(device, name, reason, at_ns))


def _add_end(recording: Recording, line: str) -> None:
    recording.ended_ns = int(json.loads(line[1:])["at_ns"])


def _group(recording: Recording, number: int) -> Group:
    if not 0 <= number < len(recording.head.groups):
        raise ValueError(f"there is no group {number}")
    return recording.head.groups[number]


_LINES = {"!": _add_reason, ".": _add_end}
