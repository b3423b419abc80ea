"""What is on this host: its hardware and software, and the capability document that the worker publishes.

A name says what should be there; a digest says what is. Nothing is taken on trust.
"""

import os
import platform
import time
from pathlib import Path
from typing import Any

import psutil
import pynvml

from app.domain.capability import HostCapability
from app.domain.manifest import Hardware, Software
from app.settings import Settings
from worker.calibrated import calibrated
from worker.cores import cpu_model
from worker.models import offered_models
from worker.runtimes.asked import capability_of
from worker.runtimes.registry import ABSENT, RuntimeIdentity, inspect_runtime, inspect_runtimes

RECHECK_S = 300.0
"""An edited file is published this late at most; a block's own check looks at every file each time."""
_ARRANGED = ("*", "*/runtime.json", "*/bin/vllm", "*/lib/python3.*/site-packages")
_seen: dict[Path, tuple[tuple[tuple[str, int], ...], float, tuple[RuntimeIdentity, ...]]] = {}

__all__ = ["RuntimeIdentity", "capabilities", "hardware", "inspect_runtime", "inspect_runtimes", "software"]


def hardware() -> Hardware:
    """The GPUs of this host by NVML, or else its processor."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return _processor()
    try:
        count = int(pynvml.nvmlDeviceGetCount())
        if count == 0:
            return _processor()
        name = str(pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0)))
        return Hardware(accelerator=name, count=count, topology=f"{count} GPU" + "s" * (count > 1))
    finally:
        pynvml.nvmlShutdown()


def software() -> Software:
    """Driver and CUDA (``none`` without a GPU), distribution and kernel."""
    driver, cuda = _gpu_software()
    release = platform.freedesktop_os_release()
    return Software(driver=driver, cuda=cuda, os=release["PRETTY_NAME"], kernel=platform.release())


def capabilities(settings: Settings) -> dict[str, Any]:
    """What this host can run, as the worker publishes it for forms and preflight."""
    client = calibrated(settings.home)
    document = HostCapability(
        runtimes=tuple(capability_of(found, settings.home) for found in _runtimes(settings.runtime_root)),
        models=offered_models(settings),
        hardware=hardware().model_dump(mode="json"),
        software=software().model_dump(mode="json"),
        cores=os.cpu_count() or 1,
        memory_bytes=accelerator_memory_bytes(),
        client_range=client.range,
        client_range_void=client.void,
    )
    return document.model_dump(mode="json")


def _runtimes(runtime_root: Path) -> tuple[RuntimeIdentity, ...]:
    """The runtimes here. An idle worker asks each quarter of a minute, so every file is looked at only now and then."""
    state = _arrangement(runtime_root)
    known = _seen.get(runtime_root)
    if known is None or known[0] != state or time.monotonic() - known[1] > RECHECK_S:
        known = _seen[runtime_root] = (state, time.monotonic(), inspect_runtimes(runtime_root))
    return known[2]


def _arrangement(runtime_root: Path) -> tuple[tuple[str, int], ...]:
    """Changes at once when a runtime is made, added or removed, or a distribution in one is."""
    found = sorted(path for pattern in _ARRANGED for path in runtime_root.glob(pattern))
    return tuple((str(path), path.stat().st_mtime_ns) for path in found)


def accelerator_memory_bytes() -> int:
    """Memory of the first GPU, or of the host where there is none."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return psutil.virtual_memory().total
    try:
        if not pynvml.nvmlDeviceGetCount():
            return psutil.virtual_memory().total
        return int(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0)).total)
    finally:
        pynvml.nvmlShutdown()


def _processor() -> Hardware:
    cores = os.cpu_count() or 1
    return Hardware(accelerator=cpu_model(), count=1, topology=f"{cores} core" + "s" * (cores > 1))


def _gpu_software() -> tuple[str, str]:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ABSENT, ABSENT
    try:
        cuda = int(pynvml.nvmlSystemGetCudaDriverVersion())
        return str(pynvml.nvmlSystemGetDriverVersion()), f"{cuda // 1000}.{cuda % 1000 // 10}"
    finally:
        pynvml.nvmlShutdown()
