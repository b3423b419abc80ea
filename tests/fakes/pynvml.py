"""A stand-in for NVIDIA's library: GPUs as a JSON file has them, which a test may change at any time.

``{"driver": …, "cuda": …, "gpus": [{"uuid", "name", "used", "total", "pids", "lost"}]}``; without the file there is no
driver. Of a list in ``used`` each question takes the first, and the last one stays.
"""

# ruff: noqa: N802  (the library's names)

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from worker import identity, nvml

STATE = "FAKE_NVML"
GIB = 1024**3


class NVMLError(Exception):
    """What the library raises for everything."""


@dataclass(frozen=True, slots=True)
class Memory:
    used: int
    total: int


@dataclass(frozen=True, slots=True)
class Process:
    pid: int


@dataclass(frozen=True, slots=True)
class FakeGpus:
    """The file, and what a test does to it."""

    path: Path

    def write(self, *gpus: dict[str, Any]) -> None:
        """A driver with these GPUs; what is not said of one is that of an idle H200."""
        idle = {"name": "NVIDIA H200", "used": GIB // 2, "total": 141 * GIB, "pids": [], "lost": False}
        every = [{"uuid": f"GPU-{number}", **idle, **gpu} for number, gpu in enumerate(gpus)]
        self.path.write_text(json.dumps({"driver": "580.1", "cuda": 13000, "gpus": every}))


def install(monkeypatch: pytest.MonkeyPatch, directory: Path) -> FakeGpus:
    """Put this module in the library's place for the code under test; no driver before the first ``write``."""
    path = directory / "nvml.json"
    monkeypatch.setenv(STATE, str(path))
    for user in (nvml, identity):
        monkeypatch.setattr(user, "pynvml", __import__(__name__, fromlist=["nvmlInit"]))
    return FakeGpus(path)


def _state() -> dict[str, Any]:
    return json.loads(Path(os.environ[STATE]).read_text())


def _gpu(handle: int) -> dict[str, Any]:
    gpu = _state()["gpus"][handle]
    if gpu["lost"]:
        raise NVMLError("GPU is lost")
    return gpu


def nvmlInit() -> None:
    if not Path(os.environ[STATE]).exists():
        raise NVMLError("Driver Not Loaded")


def nvmlShutdown() -> None:
    """Nothing was opened."""


def nvmlSystemGetDriverVersion() -> str:
    return _state()["driver"]


def nvmlSystemGetCudaDriverVersion() -> int:
    return _state()["cuda"]


def nvmlDeviceGetCount() -> int:
    return len(_state()["gpus"])


def nvmlDeviceGetHandleByIndex(index: int) -> int:
    return index


def nvmlDeviceGetHandleByUUID(uuid: str) -> int:
    for index, gpu in enumerate(_state()["gpus"]):
        if gpu["uuid"] == uuid:
            return index
    raise NVMLError("Not Found")


def nvmlDeviceGetUUID(handle: int) -> str:
    return _gpu(handle)["uuid"]


def nvmlDeviceGetName(handle: int) -> str:
    return _gpu(handle)["name"]


def nvmlDeviceGetMemoryInfo(handle: int) -> Memory:
    gpu = _gpu(handle)
    used = gpu["used"]
    if isinstance(used, list):
        state = _state()
        first, *rest = state["gpus"][handle]["used"]
        state["gpus"][handle]["used"] = rest or first
        Path(os.environ[STATE]).write_text(json.dumps(state))
        used = first
    return Memory(used, gpu["total"])


def nvmlDeviceGetComputeRunningProcesses(handle: int) -> list[Process]:
    return [Process(pid) for pid in _gpu(handle)["pids"]]
