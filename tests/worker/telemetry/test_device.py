"""What a driver says comes out as it is, and what it does not say comes out as its words."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.domain.device import Device
from tests.fakes import nvml_library
from tests.fakes.pynvml import GIB, FakeGpus, install
from worker.telemetry import occupancy
from worker.telemetry.device import NvmlReader
from worker.telemetry.names import (
    DEVICE_MEMORY,
    ENERGY,
    ENGINE_DEVICE_MEMORY,
    FAST,
    FOREIGN_PROCESSES,
    MEMORY_CLOCK,
    POWER,
    SLOW,
    SM_CLOCK,
    TEMPERATURE,
    THROTTLE_REASONS,
    UTILIZATION,
)
from worker.telemetry.sampling import devices

NOBODY = 2**22 + 1
"""No pid: Linux gives none above 2²²."""


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeGpus:
    return install(monkeypatch, tmp_path)


def no_engine() -> frozenset[int]:
    return frozenset()


def test_every_quantity_is_told_in_its_unit(gpus: FakeGpus) -> None:
    gpus.write({"power_mw": 213_500, "sm_clock": 1755, "memory_clock": 2619, "temperature": 61, "utilization": 97})
    gpus.change(used=40 * GIB, throttle=0x44, energy_mj=9_007_199_254_741_500)
    reader = NvmlReader(("GPU-0",))
    assert reader.fast("GPU-0") == {POWER: 213.5, SM_CLOCK: 1755, MEMORY_CLOCK: 2619}
    assert reader.slow("GPU-0") == {
        TEMPERATURE: 61,
        UTILIZATION: 97,
        DEVICE_MEMORY: 40 * GIB,
        THROTTLE_REASONS: 0x44,
        ENERGY: pytest.approx(9_007_199_254_741.5, abs=1e-3),
    }


def test_gpus_are_told_apart(gpus: FakeGpus) -> None:
    gpus.write({"power_mw": 1000}, {"power_mw": 2000, "uuid": "GPU-b"})
    reader = NvmlReader(("GPU-b", "GPU-0"))
    assert (reader.fast("GPU-b")[POWER], reader.fast("GPU-0")[POWER]) == (2, 1)


def test_what_is_not_supported_is_said_and_asked_once(gpus: FakeGpus) -> None:
    gpus.write({"energy_mj": [{"error": "Not Supported"}, 7_000, 8_000]})
    reader = NvmlReader(("GPU-0",))
    assert [reader.slow("GPU-0")[ENERGY] for _ in range(3)] == ["Not Supported"] * 3
    assert gpus.left("energy_mj") == 2


def test_what_is_lost_is_said_and_asked_again(gpus: FakeGpus) -> None:
    gpus.write({})
    reader = NvmlReader(("GPU-0",))
    assert reader.fast("GPU-0")[POWER] == 75
    gpus.change(lost=True)
    assert set(reader.fast("GPU-0").values()) == set(reader.slow("GPU-0").values()) == {"GPU is lost"}
    assert set(reader.processes("GPU-0", no_engine).values()) == {"GPU is lost"}
    gpus.change(lost=False)
    assert reader.fast("GPU-0")[POWER] == 75


def test_a_host_without_a_driver_and_a_gpu_of_another_host(gpus: FakeGpus) -> None:
    reader = NvmlReader(("GPU-0",))
    assert reader.fast("GPU-0") == dict.fromkeys(FAST, "the driver cannot be opened: Driver Not Loaded")
    gpus.write({})
    assert NvmlReader(("GPU-x",)).slow("GPU-x") == dict.fromkeys(SLOW, "Not Found")


def refusing(error: Exception) -> Callable[..., Any]:
    def ask(*_: Any) -> Any:
        raise error

    return ask


def test_an_older_driver_is_asked_by_the_older_name(gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus.write({})
    unknown = nvml_library.NVMLError("Function Not Found")
    monkeypatch.setattr(nvml_library, "nvmlDeviceGetCurrentClocksEventReasons", refusing(unknown))
    monkeypatch.setattr(nvml_library, "nvmlDeviceGetCurrentClocksThrottleReasons", lambda _: 0x20, raising=False)
    mismatch = nvml_library.NVMLLibraryMismatchError("the version does not match")
    monkeypatch.setattr(nvml_library, "nvmlDeviceGetComputeRunningProcesses", refusing(mismatch))
    monkeypatch.setattr(nvml_library, "nvmlDeviceGetComputeRunningProcesses_v2", lambda _: [], raising=False)
    monkeypatch.delattr(nvml_library, "nvmlDeviceGetTemperatureV")
    reader = NvmlReader(("GPU-0",))
    assert reader.slow("GPU-0")[THROTTLE_REASONS] == 0x20
    assert reader.processes("GPU-0", no_engine)[FOREIGN_PROCESSES] == 0
    assert reader.slow("GPU-0")[TEMPERATURE] == "Function Not Found"


def told(gpus: FakeGpus, reader: NvmlReader, pids: list[Any], *engine: int) -> tuple[float | str, float | str]:
    gpus.change(pids=pids)
    reading = reader.processes("GPU-0", lambda: frozenset(engine))
    return reading[ENGINE_DEVICE_MEMORY], reading[FOREIGN_PROCESSES]


@pytest.fixture(params=[True, False], ids=["host's pids", "own pids"])
def reader(request: pytest.FixtureRequest, gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> NvmlReader:
    monkeypatch.setattr(occupancy, "sees_every_process", lambda: request.param)
    gpus.write({})
    return NvmlReader(("GPU-0",))


def test_the_engines_memory_and_the_strangers_are_told_apart(gpus: FakeGpus, reader: NvmlReader) -> None:
    mine = os.getpid()
    with subprocess.Popen(("sleep", "60")) as child:
        try:
            assert told(gpus, reader, [[mine, 3 * GIB], [1, GIB], [child.pid, GIB]], mine, child.pid) == (4 * GIB, 1)
            assert told(gpus, reader, [[mine, None], [child.pid, GIB]], mine, child.pid) == (occupancy.NOT_TOLD, 0)
            assert told(gpus, reader, [], mine) == (0, 0)
        finally:
            child.kill()


def test_a_process_that_nobody_can_see_is_no_stranger_at_first(gpus: FakeGpus, reader: NvmlReader) -> None:
    mine = os.getpid()
    assert told(gpus, reader, [[mine, GIB], NOBODY], mine)[1] == 0
    assert told(gpus, reader, [[mine, GIB], NOBODY + 1], mine)[1] == 0
    assert told(gpus, reader, [[mine, GIB], NOBODY + 1], mine)[1] == 1


def test_where_pids_mean_something_else_nothing_is_counted_until_one_is_the_engines(
    gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(occupancy, "sees_every_process", lambda: False)
    gpus.write({})
    reader = NvmlReader(("GPU-0",))
    mine = os.getpid()
    silent, others = told(gpus, reader, [], mine), told(gpus, reader, [[NOBODY, GIB]], mine)
    assert silent[0] == silent[1]
    assert "it lists none" in str(silent[0])
    assert "are others" in str(others[0])
    assert told(gpus, reader, [[mine, GIB]], mine) == (GIB, 0)


def test_a_device_is_described_with_its_links(gpus: FakeGpus) -> None:
    gpus.write({"nvlinks": [1], "ecc": {"error": "Not Supported"}, "mig": 1}, {"nvlinks": [0], "ancestor": 20}, {})
    first, second, third = devices(("GPU-0", "GPU-1", "GPU-2"))
    assert first == Device(
        uuid="GPU-0",
        model="NVIDIA H200",
        driver="580.1",
        cuda="13.0",
        memory_bytes=141 * GIB,
        pci_bus_id="00000000:19:00.0",
        ecc=None,
        mig=True,
        persistence=True,
        power_limit_w=700,
        sm_clock_max_mhz=1980,
        memory_clock_max_mhz=3201,
        links={"GPU-1": "NVLINK", "GPU-2": "PCIE SYS"},
    )
    assert (second.links["GPU-0"], third.links["GPU-1"]) == ("NVLINK", "PCIE SYS")


def test_a_device_that_does_not_answer_is_left_out(gpus: FakeGpus) -> None:
    assert devices(("GPU-0",)) == ()
    gpus.write({}, {"lost": True})
    assert [device.uuid for device in devices(("GPU-0", "GPU-1", "GPU-x"))] == ["GPU-0"]
    assert devices(("GPU-0", "GPU-1"))[0].links == {}
