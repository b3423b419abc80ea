"""GPUs as their driver (NVML) sees them, each quantity with its value or with the reason why there is none.

What the driver does not know at all is asked once; what it fails to tell is asked again each time.
"""

from collections.abc import Callable
from typing import Any

import pynvml

from worker import nvml
from worker.telemetry.names import (
    DEVICE_MEMORY,
    ENERGY,
    FAST,
    MEMORY_CLOCK,
    POWER,
    PROCESSES,
    SLOW,
    SM_CLOCK,
    TEMPERATURE,
    THROTTLE_REASONS,
    UTILIZATION,
    Reading,
)
from worker.telemetry.occupancy import EnginePids, Occupant, Occupants

MILLI = 1e-3
FINAL = frozenset({"Not Supported", "Function Not Found", "Insufficient Permissions"})
"""What a driver says of a quantity that it will never tell."""


class NvmlReader:
    """The driver of this host, opened once and kept open."""

    def __init__(self, uuids: tuple[str, ...]) -> None:
        self.uuids = uuids
        self._refusal = _opened()
        self._handles: dict[str, Any] = {}
        self._final: dict[tuple[str, str], str] = {}
        self._occupants = {uuid: Occupants() for uuid in uuids}

    def facts(self) -> tuple[dict[str, Any], ...]:
        """Identity and limits of each GPU that answers."""
        return nvml.facts(self.uuids)

    def fast(self, uuid: str) -> Reading:
        """Power is the driver's mean of the last second on chips since Ampere."""
        return {name: self._ask(uuid, name) for name in FAST}

    def slow(self, uuid: str) -> Reading:
        """Energy is the driver's own counter, never an integral of power."""
        return {name: self._ask(uuid, name) for name in SLOW}

    def processes(self, uuid: str, engine: EnginePids) -> Reading:
        """The list first and the engine's processes second, so that a new one of its own is no stranger."""
        listed = self._try(uuid, _listed)
        if isinstance(listed, str):
            return dict.fromkeys(PROCESSES, listed)
        return self._occupants[uuid].read(listed, engine())

    def _ask(self, uuid: str, name: str) -> float | str:
        if (uuid, name) in self._final:
            return self._final[uuid, name]
        told = self._try(uuid, QUESTIONS[name])
        if isinstance(told, str) and told in FINAL:
            self._final[uuid, name] = told
        return told

    def _try(self, uuid: str, question: Callable[[Any], Any]) -> Any:
        """The answer, or the driver's words where it refuses."""
        if self._refusal is not None:
            return self._refusal
        try:
            if uuid not in self._handles:
                self._handles[uuid] = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            return question(self._handles[uuid])
        except nvml.REFUSALS as refused:
            return str(refused)


def _opened() -> str | None:
    """Why the driver cannot be asked; ``None`` where it can."""
    try:
        pynvml.nvmlInit()
    except nvml.REFUSALS as refused:
        return f"the driver cannot be opened: {refused}"
    return None


def _listed(handle: Any) -> list[Occupant]:
    names = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetComputeRunningProcesses_v2")
    return [Occupant(int(p.pid), p.usedGpuMemory) for p in nvml.first_known(names, handle)]


def _temperature(handle: Any) -> float:
    names = ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature")
    return nvml.first_known(names, handle, pynvml.NVML_TEMPERATURE_GPU)


def _throttle_reasons(handle: Any) -> float:
    names = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
    return nvml.first_known(names, handle)


QUESTIONS: dict[str, Callable[[Any], Any]] = {
    POWER: lambda handle: pynvml.nvmlDeviceGetPowerUsage(handle) * MILLI,
    SM_CLOCK: lambda handle: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
    MEMORY_CLOCK: lambda handle: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM),
    TEMPERATURE: _temperature,
    UTILIZATION: lambda handle: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu,
    DEVICE_MEMORY: lambda handle: pynvml.nvmlDeviceGetMemoryInfo(handle).used,
    THROTTLE_REASONS: _throttle_reasons,
    ENERGY: lambda handle: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) * MILLI,
}
