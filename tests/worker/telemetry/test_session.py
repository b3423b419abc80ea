"""What a conducted run carries of its telemetry."""

from pathlib import Path

import pytest

from app.domain.evidence import RunEvidence
from app.domain.series import (
    CLOCK_OFFSET,
    ENERGY,
    ENGINE_CPU,
    ENGINE_DEVICE_MEMORY,
    ENGINE_RSS,
    FOREIGN_PROCESSES,
    POWER,
    THROTTLE_REASONS,
    Series,
    the_one,
)
from tests.fakes.pynvml import FakeGpus, install_for_children
from tests.worker.conduct import PlaceMaker
from worker.telemetry.names import OF_DEVICE, OF_HOST


def one(run: RunEvidence, name: str, **labels: str) -> Series:
    found = the_one(run.series, name, **labels)
    assert found is not None, name
    return found


def covers(run: RunEvidence, series: Series) -> bool:
    return series.at_ns[0] <= 0 and series.at_ns[-1] >= max(o.end_ns or 0 for o in run.observations)


async def test_a_run_without_a_gpu_has_its_engine_and_its_host(place: PlaceMaker) -> None:
    here = place()
    manifest = await here.submit()
    await here.conduct()
    evidence = await here.evidence(manifest)
    assert len(evidence.runs) == 4
    for run in evidence.runs:
        assert {name for name in OF_HOST if covers(run, one(run, name))} == set(OF_HOST)
        assert run.unobservable == dict.fromkeys(OF_DEVICE, "there is no GPU")
        assert min(one(run, ENGINE_RSS).values) > 10 * 1024**2
        engine_s = one(run, ENGINE_CPU).increase()
        assert engine_s is not None
        assert engine_s > 0


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeGpus:
    fake = install_for_children(monkeypatch, tmp_path)
    fake.write({"power_mw": 412_000, "throttle": 0x40, "energy_mj": {"error": "Not Supported"}})
    return fake


async def test_a_run_on_a_gpu_has_that_gpu(gpus: FakeGpus, place: PlaceMaker) -> None:
    here = place()
    manifest = await here.submit()
    await here.conduct()
    evidence = await here.evidence(manifest)
    assert [device.uuid for session in evidence.sessions for device in session.devices] == ["GPU-0"] * 2
    assert len(evidence.runs) == 4
    for run in evidence.runs:
        power = one(run, POWER, device="GPU-0")
        assert set(power.values) == {412}
        assert covers(run, power)
        assert set(one(run, THROTTLE_REASONS).values) == {0x40}
        assert run.unobservable[ENERGY] == "GPU-0: Not Supported"
        assert covers(run, one(run, CLOCK_OFFSET))
        assert (FOREIGN_PROCESSES in run.unobservable) == (ENGINE_DEVICE_MEMORY in run.unobservable)
