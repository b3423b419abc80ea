"""Background services: started detached, recorded with pid and birth, stopped with their whole tree.

A pid alone names nobody: after a crash or a reboot another program may have it. The birth of a
process (boot and start tick) does.
"""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from pydantic import TypeAdapter, ValidationError

GRACE_S = 20.0
_STATE, _START_TICK = 0, 19
"""Places in ``/proc/<pid>/stat`` after the command, which may itself hold spaces and brackets."""


@dataclass(frozen=True, slots=True)
class Service:
    """A process that was started. ``stop_signal`` asks it to leave at once and in order."""

    name: str
    argv: tuple[str, ...]
    pid: int
    birth: str
    stop_signal: int


_SERVICES = TypeAdapter(list[Service])


@dataclass(frozen=True, slots=True)
class Wanted:
    """A service as it should run."""

    name: str
    argv: tuple[str, ...]
    stop_signal: signal.Signals = signal.SIGTERM


def birth(pid: int) -> str | None:
    """When the process began, unique on this host; None where it is gone or only a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return None if fields[_STATE] in "ZX" else f"{boot}:{fields[_START_TICK]}"


def running(service: Service) -> bool:
    """Whether exactly that process still runs."""
    return birth(service.pid) == service.birth


class Register:
    """Which services were started, in one file; entries of dead processes are ignored."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, Service]:
        """Running services by name."""
        try:
            known = _SERVICES.validate_json(self._path.read_bytes())
        except (FileNotFoundError, ValidationError):
            return {}
        return {service.name: service for service in known if running(service)}

    def write(self, services: Mapping[str, Service]) -> None:
        """Replace the file in one step."""
        fresh = self._path.with_suffix(".new")
        fresh.write_bytes(_SERVICES.dump_json(list(services.values()), indent=1))
        fresh.replace(self._path)


def start(wanted: Wanted, *, environment: Mapping[str, str], directory: Path, log: Path) -> Service:
    """Start it in a session of its own, so that it outlives the command and the terminal."""
    with log.open("ab") as stream:
        process = subprocess.Popen(
            wanted.argv,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env=dict(environment),
            start_new_session=True,
        )
    return Service(wanted.name, wanted.argv, process.pid, birth(process.pid) or "", int(wanted.stop_signal))


def stop(services: Sequence[Service], *, grace_s: float = GRACE_S) -> None:
    """Ask each to leave; when it has, or the grace is over, end what is left of its tree. Returns when all is gone."""
    asked = [psutil.Process(service.pid) for service in services if running(service)]
    tree = [process for root in asked for process in (root, *_descendants(root))]
    for service in services:
        if running(service):
            with suppress(ProcessLookupError):
                os.kill(service.pid, service.stop_signal)
    _left(asked, grace_s)
    for process in _left(tree, 0):
        with suppress(psutil.NoSuchProcess):
            process.kill()
    _left(tree, GRACE_S)


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _left(processes: Sequence[psutil.Process], grace_s: float) -> list[psutil.Process]:
    """What still runs when the grace is over or all have gone."""
    deadline = time.monotonic() + grace_s
    while (left := [p for p in processes if p.is_running() and birth(p.pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left
