"""NVIDIA GPUs as their driver sees them; without a driver there are none."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pynvml

REFUSALS = (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError)
"""What the library raises where the driver does not answer, or is too old for the question."""
_UNKNOWN_QUESTION = "Function Not Found"
_ANCESTORS = {0: "PCIE board", 10: "PCIE PIX", 20: "PCIE PXB", 30: "PCIE PHB", 40: "PCIE NODE", 50: "PCIE SYS"}
"""Where two GPUs meet, in the words of ``nvidia-smi topo -m``."""


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


def facts(uuids: Sequence[str]) -> tuple[dict[str, Any], ...]:
    """Fields of the domain's ``Device`` for each of these GPUs that answers; ``None`` for what it does not tell."""
    with _driver() as there:
        handles = {uuid: _answering(uuid) for uuid in uuids} if there else {}
        found = {uuid: handle for uuid, handle in handles.items() if handle is not None}
        return tuple(_facts(uuid, found) for uuid in found)


def first_known(names: Sequence[str], *arguments: Any) -> Any:
    """The answer of the first of these functions that library and driver both know. Raises one of ``REFUSALS``."""
    refusal: Exception = pynvml.NVMLLibraryMismatchError(_UNKNOWN_QUESTION)
    for name in names:
        try:
            return getattr(pynvml, name)(*arguments)
        except AttributeError:
            continue
        except REFUSALS as refused:
            refusal = refused
            if isinstance(refused, pynvml.NVMLError) and str(refused) != _UNKNOWN_QUESTION:
                raise
    raise refusal


def _facts(uuid: str, handles: dict[str, Any]) -> dict[str, Any]:
    device, sm, memory = handles[uuid], pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM
    power_limit_mw = _told(pynvml.nvmlDeviceGetEnforcedPowerLimit, device)
    return {
        "uuid": uuid,
        "model": str(pynvml.nvmlDeviceGetName(device)),
        "driver": str(pynvml.nvmlSystemGetDriverVersion()),
        "cuda": _cuda(_told(pynvml.nvmlSystemGetCudaDriverVersion)),
        "memory_bytes": int(pynvml.nvmlDeviceGetMemoryInfo(device).total),
        "pci_bus_id": _bus_id(device),
        "ecc": _is_on(_told(pynvml.nvmlDeviceGetEccMode, device)),
        "mig": _is_on(_told(pynvml.nvmlDeviceGetMigMode, device)),
        "persistence": _is_on(_told(pynvml.nvmlDeviceGetPersistenceMode, device)),
        "power_limit_w": None if power_limit_mw is None else power_limit_mw / 1000,
        "sm_clock_max_mhz": _told(pynvml.nvmlDeviceGetMaxClockInfo, device, sm),
        "memory_clock_max_mhz": _told(pynvml.nvmlDeviceGetMaxClockInfo, device, memory),
        "links": {other: _link(device, handle) for other, handle in handles.items() if other != uuid},
    }


def _answering(uuid: str) -> Any:
    """The GPU's handle; ``None`` where it does not even tell its name."""
    handle = _told(pynvml.nvmlDeviceGetHandleByUUID, uuid)
    return None if handle is None or _told(pynvml.nvmlDeviceGetName, handle) is None else handle


def _told(question: Callable[..., Any], *arguments: Any) -> Any:
    """The answer; ``None`` where there is none."""
    try:
        return question(*arguments)
    except REFUSALS:
        return None


def _cuda(version: int | None) -> str | None:
    return None if version is None else f"{version // 1000}.{version % 1000 // 10}"


def _is_on(mode: Any) -> bool | None:
    """The current mode, of a pair the first; the second would hold after a reset."""
    current = mode[0] if isinstance(mode, list | tuple) else mode
    return None if current is None else bool(current)


def _bus_id(device: Any) -> str | None:
    info = _told(pynvml.nvmlDeviceGetPciInfo, device)
    if info is None:
        return None
    return info.busId.decode() if isinstance(info.busId, bytes) else str(info.busId)


def _link(device: Any, other: Any) -> str:
    """``NVLINK``, also through a switch; else where on the PCI bus the two meet."""
    direct = _told(pynvml.nvmlDeviceGetP2PStatus, device, other, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
    if direct == pynvml.NVML_P2P_STATUS_OK:
        return "NVLINK"
    return _ANCESTORS.get(_told(pynvml.nvmlDeviceGetTopologyCommonAncestor, device, other), "not told")


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
