"""The accelerators of this host: which there are, the lock that keeps each to one engine, and whether one is clean.

The lock's descriptor is inherited by the engine, so that a process that outlives its supervisor keeps others out.
"""

import asyncio
import fcntl
import os
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.settings import Settings
from worker import nvml
from worker.cores import cpu_model
from worker.engine import containment

PROCESSOR = "cpu"
LOCK_PATIENCE_S = 20.0
"""How long a predecessor that lost its lease may take to end its engine."""
BASELINE_PATIENCE_S = 60.0
BASELINE_TOLERANCE_BYTES = 256 * 1024**2
"""A driver gives memory back in steps, and other clients of the display or of MPS may breathe."""
_POLL_S = 0.2


class AcceleratorBusy(Exception):
    """Another process of this host has the lock; nothing is wrong with the accelerator."""


class AcceleratorUnfit(Exception):
    """Something else has the accelerator, or left memory in it: no engine may use it until a person has looked."""


@dataclass(frozen=True, slots=True)
class Accelerators:
    """What a host offers: places of one kind, by name."""

    kind: str
    names: tuple[str, ...]


def offered(settings: Settings) -> Accelerators:
    """The GPUs by UUID, or else the processor's places (``cpu-0`` …)."""
    found = nvml.gpus()
    if found:
        return Accelerators(found[0].model, tuple(gpu.uuid for gpu in found))
    places = range(settings.processor_places)
    return Accelerators(cpu_model(), tuple(f"{PROCESSOR}-{place}" for place in places))


def is_gpu(name: str) -> bool:
    """Whether the name is a GPU's UUID."""
    return not name.startswith(f"{PROCESSOR}-")


@dataclass(frozen=True, slots=True)
class Held:
    """Locked accelerators: their names, the descriptors of the locks, and their memory in use before any engine."""

    names: tuple[str, ...]
    descriptors: tuple[int, ...]
    baseline_bytes: dict[str, int]

    @property
    def gpus(self) -> tuple[str, ...]:
        """UUIDs of those that are GPUs."""
        return tuple(name for name in self.names if is_gpu(name))


@contextmanager
def try_lock(directory: Path, name: str) -> Generator[int | None]:
    """The lock's descriptor, or ``None`` while somebody else has it."""
    directory.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(directory / f"accelerator-{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def idle(directory: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Those that nobody has locked at this moment."""
    return tuple(name for name in names if _is_idle(directory, name))


@contextmanager
def whole_host(settings: Settings) -> Generator[bool]:
    """Lock every accelerator, for what must not run beside an experiment; false where one is taken."""
    with ExitStack() as stack:
        names = offered(settings).names
        yield all(stack.enter_context(try_lock(settings.lock_root, name)) is not None for name in names)


@contextmanager
def hold(directory: Path, names: Sequence[str]) -> Generator[Held]:
    """Lock each accelerator and look that nobody computes on it.

    Raises ``AcceleratorBusy`` where another process has a lock, ``AcceleratorUnfit`` where strangers use a GPU.
    Orphans of dead supervisors are killed first: they may still have the lock, and the memory.
    """
    containment.sweep_orphans()
    with ExitStack() as stack:
        deadline = time.monotonic() + LOCK_PATIENCE_S
        descriptors = tuple(_lock(stack, directory, name, deadline) for name in names)
        with _fit():
            for name in filter(is_gpu, names):
                _wait_for_strangers(name, deadline)
            baseline = {name: nvml.memory_used_bytes(name) for name in names if is_gpu(name)}
        yield Held(tuple(names), descriptors, baseline)


def _is_idle(directory: Path, name: str) -> bool:
    with try_lock(directory, name) as descriptor:
        return descriptor is not None


def _lock(stack: ExitStack, directory: Path, name: str, deadline: float) -> int:
    while (descriptor := stack.enter_context(try_lock(directory, name))) is None:
        if time.monotonic() > deadline:
            raise AcceleratorBusy(f"{name}: another process of this host has held its lock for {LOCK_PATIENCE_S:g} s")
        time.sleep(_POLL_S)
    return descriptor


def _wait_for_strangers(name: str, deadline: float) -> None:
    """What was just killed keeps its lock shorter than its context."""
    while strangers := nvml.compute_processes(name):
        if time.monotonic() > deadline:
            raise AcceleratorUnfit(f"{name}: in use by processes {sorted(strangers)}")
        time.sleep(_POLL_S)


@contextmanager
def _fit() -> Generator[None]:
    try:
        yield
    except nvml.GpuLost as lost:
        raise AcceleratorUnfit(str(lost)) from lost


async def back_to_baseline(held: Held) -> None:
    """Wait until each GPU has its memory back. Raises ``AcceleratorUnfit`` where one does not."""
    deadline = time.monotonic() + BASELINE_PATIENCE_S
    while left := _left_bytes(held):
        if time.monotonic() > deadline:
            told = ", ".join(f"{name} by {excess / 1024**2:.0f} MiB" for name, excess in left.items())
            raise AcceleratorUnfit(f"memory did not return to its baseline {BASELINE_PATIENCE_S:g} s after: {told}")
        await asyncio.sleep(_POLL_S)


def _left_bytes(held: Held) -> dict[str, int]:
    with _fit():
        excess = {name: nvml.memory_used_bytes(name) - before for name, before in held.baseline_bytes.items()}
    return {name: left for name, left in excess.items() if left > BASELINE_TOLERANCE_BYTES}
