"""NVIDIA's library as a JSON file has it; a test may change the file at any time, and other processes see it.

``{"driver": …, "cuda": …, "gpus": [{"uuid", "name", "used", …}], "links": …}``; without the file there is no driver. A
value is what each question is answered with; of a list each question takes the first, and the last one stays;
``{"error": "Not Supported"}`` is raised. Of processes, a pid may be ``[pid, bytes]``.
"""

# ruff: noqa: N802  (the library's names)

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STATE = "FAKE_NVML"
GIB = 1024**3
IDLE: dict[str, Any] = {
    "name": "NVIDIA H200",
    "used": GIB // 2,
    "total": 141 * GIB,
    "pids": [],
    "lost": False,
    "power_mw": 75_000,
    "sm_clock": 345,
    "memory_clock": 3201,
    "temperature": 30,
    "utilization": 0,
    "throttle": 1,
    "energy_mj": 1_000_000,
    "power_limit_mw": 700_000,
    "sm_clock_max": 1980,
    "memory_clock_max": 3201,
    "bus_id": "00000000:19:00.0",
    "ecc": 1,
    "mig": 0,
    "persistence": 1,
    "nvlinks": [],
    "ancestor": 50,
}
"""A GPU of which a test says nothing else; ``nvlinks`` are the indices of those that it is joined to."""

NVML_CLOCK_SM = 1
NVML_CLOCK_MEM = 2
NVML_TEMPERATURE_GPU = 0
NVML_P2P_CAPS_INDEX_NVLINK = 2
NVML_P2P_STATUS_OK = 0
NVML_P2P_STATUS_NOT_SUPPORTED = 5


class NVMLError(Exception):
    """What the library raises for everything."""


class NVMLLibraryMismatchError(Exception):
    """… but for functions that the driver is too old for."""


@dataclass(frozen=True, slots=True)
class Memory:
    used: int
    total: int


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    usedGpuMemory: int | None  # noqa: N815  (the library's name)


@dataclass(frozen=True, slots=True)
class Utilization:
    gpu: int


@dataclass(frozen=True, slots=True)
class PciInfo:
    busId: bytes  # noqa: N815  (the library's name)


def write_state(path: Path, state: dict[str, Any]) -> None:
    """In one piece, so that no other process ever reads half of it."""
    whole = path.with_suffix(f".{os.getpid()}")
    whole.write_text(json.dumps(state))
    whole.replace(path)


def _state() -> dict[str, Any]:
    return json.loads(Path(os.environ[STATE]).read_text())


def _gpu(handle: int) -> dict[str, Any]:
    gpu = _state()["gpus"][handle]
    if gpu["lost"]:
        raise NVMLError("GPU is lost")
    return gpu


def _answer(handle: int, name: str) -> Any:
    value = _gpu(handle)[name]
    if isinstance(value, list) and name != "nvlinks":
        state = _state()
        first, *rest = state["gpus"][handle][name]
        if rest:
            state["gpus"][handle][name] = rest
            write_state(Path(os.environ[STATE]), state)
        value = first
    if isinstance(value, dict):
        raise NVMLError(value["error"])
    return value


def nvmlInit() -> None:
    if not Path(os.environ.get(STATE, "/nowhere")).exists():
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
    return Memory(_answer(handle, "used"), _gpu(handle)["total"])


def nvmlDeviceGetComputeRunningProcesses(handle: int) -> list[Process]:
    pids = _gpu(handle)["pids"]
    if isinstance(pids, dict):
        raise NVMLError(pids["error"])
    return [Process(*pid) if isinstance(pid, list) else Process(pid, None) for pid in pids]


def nvmlDeviceGetPowerUsage(handle: int) -> int:
    return _answer(handle, "power_mw")


def nvmlDeviceGetClockInfo(handle: int, clock: int) -> int:
    return _answer(handle, "sm_clock" if clock == NVML_CLOCK_SM else "memory_clock")


def nvmlDeviceGetMaxClockInfo(handle: int, clock: int) -> int:
    return _answer(handle, "sm_clock_max" if clock == NVML_CLOCK_SM else "memory_clock_max")


def nvmlDeviceGetTemperatureV(handle: int, sensor: int) -> int:
    assert sensor == NVML_TEMPERATURE_GPU
    return _answer(handle, "temperature")


def nvmlDeviceGetUtilizationRates(handle: int) -> Utilization:
    return Utilization(_answer(handle, "utilization"))


def nvmlDeviceGetCurrentClocksEventReasons(handle: int) -> int:
    return _answer(handle, "throttle")


def nvmlDeviceGetTotalEnergyConsumption(handle: int) -> int:
    return _answer(handle, "energy_mj")


def nvmlDeviceGetEnforcedPowerLimit(handle: int) -> int:
    return _answer(handle, "power_limit_mw")


def nvmlDeviceGetPciInfo(handle: int) -> PciInfo:
    return PciInfo(_answer(handle, "bus_id").encode())


def nvmlDeviceGetEccMode(handle: int) -> list[int]:
    return [_answer(handle, "ecc"), 1]


def nvmlDeviceGetMigMode(handle: int) -> list[int]:
    return [_answer(handle, "mig"), 0]


def nvmlDeviceGetPersistenceMode(handle: int) -> int:
    return _answer(handle, "persistence")


def nvmlDeviceGetP2PStatus(handle: int, other: int, index: int) -> int:
    assert index == NVML_P2P_CAPS_INDEX_NVLINK
    return NVML_P2P_STATUS_OK if other in _gpu(handle)["nvlinks"] else NVML_P2P_STATUS_NOT_SUPPORTED


def nvmlDeviceGetTopologyCommonAncestor(handle: int, other: int) -> int:
    return max(_answer(handle, "ancestor"), _answer(other, "ancestor"))
