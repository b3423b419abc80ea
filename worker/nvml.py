"""NVIDIA GPUs as their driver sees them; without a driver there are none."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pynvml


class GpuLost(Exception):
    """The driver cannot speak of this GPU any more: it fell off the bus, say."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU: ``uuid`` names it everywhere, also to CUDA."""

    uuid: str
    model: str


def gpus() -> tuple[Gpu, ...]:
    """Every GPU of this host, in the driver's order."""
    with _driver() as there:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())] if there else []
        return tuple(Gpu(str(pynvml.nvmlDeviceGetUUID(h)), str(pynvml.nvmlDeviceGetName(h))) for h in handles)


def memory_used_bytes(uuid: str) -> int:
    """Device memory that is in use by anyone, the driver's own share included. Raises ``GpuLost``."""
    with _device(uuid) as device:
        return int(pynvml.nvmlDeviceGetMemoryInfo(device).used)


def compute_processes(uuid: str) -> frozenset[int]:
    """Pids of every process with a context on the GPU, as this pid namespace sees them. Raises ``GpuLost``."""
    with _device(uuid) as device:
        return frozenset(int(p.pid) for p in pynvml.nvmlDeviceGetComputeRunningProcesses(device))


@contextmanager
def _device(uuid: str) -> Generator[Any]:
    try:
        with _driver():
            yield pynvml.nvmlDeviceGetHandleByUUID(uuid)
    except pynvml.NVMLError as error:
        raise GpuLost(f"{uuid}: its driver says: {error}") from error


@contextmanager
def _driver() -> Generator[bool]:
    """Whether there is a driver."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield False
        return
    try:
        yield True
    finally:
        pynvml.nvmlShutdown()
