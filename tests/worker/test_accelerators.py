"""One engine for each accelerator of a host, also when its supervisor is killed; none on a GPU that is not clean."""

import asyncio
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.accelerators.repository import AcceleratorFacts, AcceleratorRepository
from app.db.session import Database
from app.domain.lifecycle import AcceleratorState, RunState
from app.domain.report import build_report
from app.settings import Settings
from tests.db.hosts import sql, until
from tests.fakes.pynvml import GIB, FakeGpus, install
from tests.worker.conduct import Place, PlaceMaker
from tests.worker.conftest import tagged_processes
from worker import accelerators, nvml
from worker.accelerators import AcceleratorBusy, AcceleratorUnfit, back_to_baseline, hold, idle, offered, whole_host
from worker.engine import containment

PLACES = ("cpu-0", "cpu-1")
HOLDER = """
import subprocess, sys
from pathlib import Path
from worker.accelerators import hold
from worker.engine.containment import tags

with hold(Path(sys.argv[1]), ("cpu-0",)) as held:
    engine = subprocess.Popen(["sleep", "600"], env=tags("engine"), pass_fds=held.descriptors, stdout=-3)
    print(engine.pid, flush=True)
    sys.stdin.read()
    engine.kill()
    engine.wait()
"""


@pytest.fixture(autouse=True)
def gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeGpus:
    """No driver until a test writes GPUs; and nobody has patience."""
    for patience in ("LOCK_PATIENCE_S", "BASELINE_PATIENCE_S"):
        monkeypatch.setattr(accelerators, patience, 0.5)
    return install(monkeypatch, tmp_path)


@contextmanager
def supervisor(locks: Path) -> Generator[tuple["subprocess.Popen[str]", int]]:
    """Another process that has ``cpu-0`` and an engine on it: the process, and the engine's pid."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(locks)], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())


def test_what_one_process_has_no_other_one_gets_and_the_rest_is_idle(tmp_path: Path) -> None:
    with supervisor(tmp_path) as (process, _):
        assert idle(tmp_path, PLACES) == ("cpu-1",)
        with pytest.raises(AcceleratorBusy, match="cpu-0"), hold(tmp_path, ("cpu-1", "cpu-0")):
            pass
        assert idle(tmp_path, PLACES) == ("cpu-1",)
        with hold(tmp_path, ("cpu-1",)) as held:
            assert (held.names, held.gpus, held.baseline_bytes) == (("cpu-1",), (), {})
        process.communicate("")
    assert idle(tmp_path, PLACES) == PLACES


def test_an_engine_whose_supervisor_was_killed_keeps_others_out_until_it_is_swept(tmp_path: Path) -> None:
    with supervisor(tmp_path) as (process, engine):
        process.kill()
        process.wait()
        assert containment.alive([engine])
        assert idle(tmp_path, PLACES) == ("cpu-1",)
        with hold(tmp_path, ("cpu-0",)):
            assert not containment.alive([engine])
    assert idle(tmp_path, PLACES) == PLACES


def test_a_lock_is_not_passed_to_children_that_are_not_engines(tmp_path: Path) -> None:
    with hold(tmp_path, ("cpu-0",)):
        bystander = subprocess.Popen(["sleep", "600"], close_fds=False)
    try:
        assert idle(tmp_path, PLACES) == PLACES
    finally:
        bystander.kill()
        bystander.wait()


def test_a_whole_host_is_all_of_its_accelerators_or_none(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, processor_places=2)
    with whole_host(settings) as free:
        assert free
        assert idle(settings.lock_root, PLACES) == ()
    assert idle(settings.lock_root, PLACES) == PLACES
    with hold(settings.lock_root, ("cpu-1",)), whole_host(settings) as free:
        assert not free
    assert idle(settings.lock_root, PLACES) == PLACES


def test_a_host_offers_its_gpus_by_uuid_or_else_places_of_its_processor(tmp_path: Path, gpus: FakeGpus) -> None:
    settings = Settings(home=tmp_path, processor_places=2)
    assert offered(settings).names == PLACES
    gpus.write({}, {"uuid": "GPU-of-the-other"})
    assert offered(settings) == accelerators.Accelerators("NVIDIA H200", ("GPU-0", "GPU-of-the-other"))
    gpus.write()
    assert offered(settings).names == PLACES


def test_a_gpu_that_a_stranger_uses_is_unfit(tmp_path: Path, gpus: FakeGpus) -> None:
    gpus.write({}, {"pids": [4711, 42]})
    with pytest.raises(AcceleratorUnfit, match=r"GPU-1: in use by processes \[42, 4711\]"), hold(tmp_path, ("GPU-1",)):
        pass
    with hold(tmp_path, ("GPU-0",)) as held:
        assert (held.gpus, held.baseline_bytes) == (("GPU-0",), {"GPU-0": GIB // 2})


def test_a_process_that_is_just_being_killed_is_waited_for(
    tmp_path: Path, gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus.write({"pids": [42]})
    monkeypatch.setattr(accelerators.time, "sleep", lambda _: gpus.write({}))
    with hold(tmp_path, ("GPU-0",)) as held:
        assert held.gpus == ("GPU-0",)


async def test_memory_is_waited_for_and_a_little_more_is_none(tmp_path: Path, gpus: FakeGpus) -> None:
    gpus.write({"used": [GIB, 9 * GIB, 5 * GIB, GIB + 200 * 1024**2]})
    with hold(tmp_path, ("GPU-0",)) as held:
        await back_to_baseline(held)


async def test_memory_that_does_not_come_back_makes_a_gpu_unfit(tmp_path: Path, gpus: FakeGpus) -> None:
    gpus.write({}, {"used": [GIB, 3 * GIB]})
    with (
        hold(tmp_path, ("GPU-0", "GPU-1")) as held,
        pytest.raises(AcceleratorUnfit, match=r"after: GPU-1 by 2048 MiB$"),
    ):
        await back_to_baseline(held)


async def test_a_gpu_that_the_driver_has_lost_is_unfit_before_and_after(tmp_path: Path, gpus: FakeGpus) -> None:
    gpus.write({"lost": True})
    with pytest.raises(AcceleratorUnfit, match="GPU-0: its driver says: GPU is lost"), hold(tmp_path, ("GPU-0",)):
        pass
    gpus.write({})
    with hold(tmp_path, ("GPU-0",)) as held:
        gpus.write({"lost": True})
        with pytest.raises(AcceleratorUnfit, match="GPU is lost"):
            await back_to_baseline(held)
    with pytest.raises(nvml.GpuLost, match="Not Found"):
        nvml.memory_used_bytes("GPU-of-another-host")


@pytest.fixture
def conducting(place: PlaceMaker, gpus: FakeGpus) -> Place:
    """A host with one GPU and the fake engine."""
    gpus.write({})
    return place()


async def accelerator(database: Database) -> AcceleratorFacts:
    async with database.transaction() as session:
        [only] = await AcceleratorRepository(session).every()
        return only


async def test_the_engine_sees_its_own_gpu_only(conducting: Place, gpus: FakeGpus) -> None:
    gpus.write({}, {})
    manifest = await conducting.submit()
    seen: set[str] = set()

    def all_seen() -> bool:
        for pid in tagged_processes():
            variables = (Path("/proc") / str(pid) / "environ").read_bytes().decode().split("\0")
            seen.update(v for v in variables if v.startswith("CUDA_VISIBLE_DEVICES="))
        return bool(seen)

    work = asyncio.create_task(conducting.conduct())
    await until(all_seen)
    await work
    assert seen <= {"CUDA_VISIBLE_DEVICES=GPU-0", "CUDA_VISIBLE_DEVICES=GPU-1"}
    assert await conducting.state(manifest) == "FINISHED"


async def test_a_gpu_that_keeps_memory_is_quarantined_and_its_block_goes_on_when_a_person_has_looked(
    conducting: Place, gpus: FakeGpus
) -> None:
    manifest = await conducting.submit()
    work = asyncio.create_task(conducting.conduct())
    await until(lambda: bool(tagged_processes()))
    gpus.write({"used": 20 * GIB})  # the engine's, and after it nobody's
    await work
    only = await accelerator(conducting.database)
    assert only.state is AcceleratorState.QUARANTINED
    assert "GPU-0 by 19968 MiB" in str(only.reason)
    assert sql(conducting.database, "SELECT state, attempt FROM block") == [("QUEUED", 1)]
    await conducting.conduct()
    assert sql(conducting.database, "SELECT state, attempt FROM block") == [("QUEUED", 1)]

    gpus.write({})
    async with conducting.database.transaction() as session:
        await AcceleratorRepository(session).release(only.host, only.name)
    sql(conducting.database, "UPDATE block SET not_before = NULL RETURNING id")
    await conducting.conduct()
    assert await conducting.state(manifest) == "FINISHED"
    evidence = await conducting.evidence(manifest)
    assert {(r.arm, r.load) for r in evidence.runs if r.state is RunState.SUCCEEDED} == {
        (arm, load) for arm in ("target-only", "ngram-k4") for load in ("low", "high")
    }
    assert build_report(evidence).blocks_complete == 1


async def test_a_gpu_in_use_by_a_stranger_is_quarantined_before_an_engine_starts(
    conducting: Place, gpus: FakeGpus
) -> None:
    gpus.write({"pids": [4711]})
    await conducting.submit()
    await conducting.conduct()
    only = await accelerator(conducting.database)
    assert (only.state, only.reason) == (AcceleratorState.QUARANTINED, "GPU-0: in use by processes [4711]")
    assert sql(conducting.database, "SELECT count(*) FROM session") == [(0,)]
    assert sql(conducting.database, "SELECT state FROM block") == [("QUEUED",)]
