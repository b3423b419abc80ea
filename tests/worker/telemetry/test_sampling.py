"""The sampler as a measurement has it: a real process beside a fake driver; what goes wrong with it is a reason."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from app.domain.series import CLOCK_OFFSET, ENERGY, ENGINE_CPU, FOREIGN_CPU, POWER, SM_CLOCK, Series, the_one
from app.settings import PROJECT_ROOT
from tests.db.hosts import until
from tests.fakes.pynvml import FakeGpus, install_for_children
from tests.worker.telemetry.burner import Burner
from tests.worker.telemetry.test_recorded import RECORDING
from worker.engine import containment
from worker.telemetry import sampling
from worker.telemetry.names import OF_DEVICE, OF_HOST
from worker.telemetry.processes import usage
from worker.telemetry.recording import read_recording
from worker.telemetry.sampling import Telemetry

RAMP_W = tuple(float(100 + 7 * step) for step in range(12))


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeGpus:
    return install_for_children(monkeypatch, tmp_path)


def pid_of(telemetry: Telemetry) -> int:
    assert telemetry._process is not None
    return telemetry._process.pid


def one(series: tuple[Series, ...], name: str, **labels: str) -> Series:
    found = the_one(series, name, **labels)
    assert found is not None
    return found


def values(telemetry: Telemetry, name: str) -> tuple[float, ...]:
    return one(telemetry.series(0), name).values


async def test_a_power_ramp_is_recovered_value_by_value(gpus: FakeGpus, tmp_path: Path) -> None:
    gpus.write({"power_mw": [round(power * 1000) for power in RAMP_W], "energy_mj": [5_000_000, 5_250_000]})
    began_ns = time.monotonic_ns()
    async with Telemetry(tmp_path, gpus=("GPU-0",)) as telemetry:
        await until(lambda: gpus.left("power_mw") == 1)
        await telemetry.sample()
        series = telemetry.series(began_ns)
        power = one(series, POWER, device="GPU-0")
        assert power.values[: len(RAMP_W)] == pytest.approx(RAMP_W)
        assert power.values[len(RAMP_W) :] == pytest.approx([RAMP_W[-1]] * (len(power.values) - len(RAMP_W)))
        assert list(power.at_ns) == sorted(set(power.at_ns))
        assert 0 < power.at_ns[0] < power.at_ns[-1] < time.monotonic_ns() - began_ns
        assert one(series, ENERGY).increase() == 250
        assert telemetry.unobservable.keys() == {"engine:rss_bytes", "engine:cpu_s"}
        (device,) = telemetry.devices
    assert (device.uuid, device.power_limit_w) == ("GPU-0", 700)
    assert read_recording(telemetry.path).ended_ns is not None


async def test_a_reading_is_taken_when_it_is_asked_for(gpus: FakeGpus, tmp_path: Path) -> None:
    gpus.write({})
    with Burner(VERDRAFT_SESSION="session:1") as engine:
        async with Telemetry(tmp_path, gpus=("GPU-0",), engine_tag="session:1") as telemetry:
            await telemetry.sample()
            started_ns = time.monotonic_ns()
            engine.burn(0.3)
            await telemetry.sample()
            ended_ns = time.monotonic_ns()
            await telemetry.sample()
            burnt = one(telemetry.series(started_ns, ended_ns), ENGINE_CPU)
            assert burnt.at_ns[0] <= 0 < burnt.at_ns[1]
            assert burnt.at_ns[-2] < ended_ns - started_ns <= burnt.at_ns[-1]
            assert burnt.increase() == pytest.approx(0.3, abs=0.06)
            assert telemetry.unobservable_since(started_ns) == {}


async def test_a_gpu_that_is_lost_and_comes_back_is_a_reason_for_as_long(gpus: FakeGpus, tmp_path: Path) -> None:
    gpus.write({})
    async with Telemetry(tmp_path, gpus=("GPU-0",)) as telemetry:
        await telemetry.sample()
        gpus.change(lost=True)
        await telemetry.sample()
        assert telemetry.unobservable[POWER].startswith("GPU-0: GPU is lost")
        read = len(values(telemetry, CLOCK_OFFSET))
        gpus.change(lost=False)
        await telemetry.sample()
        back_ns = time.monotonic_ns()
        await telemetry.sample()
        assert len(values(telemetry, CLOCK_OFFSET)) >= read + 2
        assert telemetry.unobservable[POWER].startswith("GPU-0: GPU is lost (for ")
        assert POWER not in telemetry.unobservable_since(back_ns)
        assert one(telemetry.series(back_ns), SM_CLOCK).values[-1] == 345


async def test_what_the_driver_does_not_support_is_said_of_every_run(gpus: FakeGpus, tmp_path: Path) -> None:
    gpus.write({"energy_mj": {"error": "Not Supported"}})
    async with Telemetry(tmp_path, gpus=("GPU-0",)) as telemetry:
        await telemetry.sample()
        assert telemetry.unobservable_since(time.monotonic_ns())[ENERGY] == "GPU-0: Not Supported"
        assert the_one(telemetry.series(0), ENERGY) is None


async def test_a_host_without_a_gpu_says_so(tmp_path: Path) -> None:
    async with Telemetry(tmp_path, engine_pid=os.getpid()) as telemetry:
        await telemetry.sample()
        assert telemetry.unobservable == dict.fromkeys(OF_DEVICE, "there is no GPU")
        assert {s.name for s in telemetry.series(0)} == set(OF_HOST)
        assert telemetry.devices == ()


async def test_a_recording_in_the_place_of_gpus_is_labelled(tmp_path: Path) -> None:
    async with Telemetry(tmp_path, recording=RECORDING) as telemetry:
        await telemetry.sample()
        power = one(telemetry.series(0), POWER)
        assert power.labels == {"device": telemetry.devices[0].uuid, "source": "recording"}
        assert one(telemetry.series(0), FOREIGN_CPU).labels == {}
    assert read_recording(telemetry.path).head.replayed == RECORDING.name


async def test_a_sampler_that_is_killed_is_a_fact_and_what_it_wrote_stays(tmp_path: Path) -> None:
    async with Telemetry(tmp_path) as telemetry:
        await telemetry.sample()
        os.kill(pid_of(telemetry), signal.SIGKILL)
        await telemetry.sample()
        assert telemetry.unobservable == dict.fromkeys((*OF_DEVICE, *OF_HOST), "the sampler ended early with -9")
        assert len(values(telemetry, CLOCK_OFFSET)) >= 1
        await telemetry.sample()
    assert telemetry.unobservable[FOREIGN_CPU] == "the sampler ended early with -9"


async def test_a_sampler_that_was_killed_while_nobody_looked_is_a_fact_too(tmp_path: Path) -> None:
    async with Telemetry(tmp_path) as telemetry:
        await telemetry.sample()
        os.kill(pid_of(telemetry), signal.SIGKILL)
        process = telemetry._process
        assert process is not None
        await process.wait()
    assert telemetry.unobservable[FOREIGN_CPU] == "the sampler ended early with -9"


async def test_a_sampler_that_stands_still_is_a_fact_until_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Telemetry(tmp_path) as telemetry:
        await telemetry.sample()
        os.kill(pid_of(telemetry), signal.SIGSTOP)
        with monkeypatch.context() as patched:
            patched.setattr(sampling, "SILENCE_MAX_NS", 1)
            assert "has been silent for" in telemetry.unobservable[CLOCK_OFFSET]
            patched.setattr(sampling, "ANSWER_PATIENCE_S", 0.2)
            await telemetry.sample()
        assert telemetry.unobservable[CLOCK_OFFSET] == "the sampler did not answer within 0.2 s"
        os.kill(pid_of(telemetry), signal.SIGCONT)
        await telemetry.sample()
        assert CLOCK_OFFSET not in telemetry.unobservable


async def test_a_sampler_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Telemetry(tmp_path) as telemetry:
        await telemetry.sample()
        os.kill(pid_of(telemetry), signal.SIGSTOP)
        monkeypatch.setattr(sampling, "ANSWER_PATIENCE_S", 0.2)
    assert telemetry.unobservable[CLOCK_OFFSET] == "the sampler did not end within 0.2 s and was stopped"
    assert usage(pid_of(telemetry)) is None


async def test_before_it_has_begun_nothing_is_observable_and_nothing_is_broken(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    telemetry = Telemetry(tmp_path, recording=gate)
    assert telemetry.unobservable[CLOCK_OFFSET] == "the sampler has not begun yet"
    async with telemetry:  # it waits for somebody to write into its recording
        assert telemetry.series(0) == telemetry.devices == ()
        assert telemetry.unobservable[CLOCK_OFFSET] == "the sampler has not begun yet"
        await asyncio.to_thread(gate.write_bytes, b"")
        await telemetry.sample()
        assert "gate cannot be read" in telemetry.unobservable[CLOCK_OFFSET]


async def test_nobody_has_to_wait_for_it(tmp_path: Path) -> None:
    async with Telemetry(tmp_path) as telemetry:
        pass
    await telemetry.sample()
    assert CLOCK_OFFSET not in telemetry.unobservable
    assert len(values(telemetry, CLOCK_OFFSET)) >= 2


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (lambda path: path.write_text("power,clock\n"), "broken.txt does not begin with the head"),
        (lambda path: path.mkdir(), "broken.txt cannot be read"),
    ],
    ids=["no recording", "a directory"],
)
async def test_a_sampler_that_cannot_start_is_a_fact(
    tmp_path: Path, break_it: Callable[[Path], object], reason: str
) -> None:
    break_it(tmp_path / "broken.txt")
    async with Telemetry(tmp_path, recording=tmp_path / "broken.txt") as telemetry:
        await telemetry.sample()
        assert telemetry.series(0) == ()
        assert reason in telemetry.unobservable[POWER]
        assert telemetry.devices == ()


WORKER = """
import asyncio, sys
from pathlib import Path
from worker.telemetry.sampling import Telemetry

async def main():
    async with Telemetry(Path(sys.argv[1])) as telemetry:
        await telemetry.sample()
        print(telemetry._process.pid, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize("stuck", [False, True], ids=["at work", "stuck"])
def test_a_sampler_ends_with_the_worker_that_is_killed(tmp_path: Path, stuck: bool) -> None:
    argv = (sys.executable, "-c", WORKER, str(tmp_path))
    with subprocess.Popen(argv, cwd=PROJECT_ROOT, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        sampler = int(worker.stdout.readline())
        assert containment.alive([sampler])
        if stuck:
            os.kill(sampler, signal.SIGSTOP)
        worker.kill()
    while containment.alive([sampler]):
        time.sleep(0.01)


def test_the_command_records_and_says_what_it_cost(gpus: FakeGpus, tmp_path: Path) -> None:
    gpus.write({}, {})
    argv = (
        sys.executable,
        "-m",
        "worker.telemetry",
        "--gpus",
        "all",
        "--seconds",
        "0.3",
        "--output",
        tmp_path / "a.txt",
    )
    finished = subprocess.run(argv, cwd=PROJECT_ROOT, capture_output=True, text=True, check=True)
    assert finished.stdout.startswith("2 GPUs, ")
    assert "% of a core" in finished.stdout
    recording = read_recording(tmp_path / "a.txt")
    assert [facts["uuid"] for facts in recording.head.devices] == ["GPU-0", "GPU-1"]
    assert recording.columns["GPU-1", POWER].values[0] == 75
    assert recording.ended_ns is not None
