"""Whose processor time it was; amounts are processor seconds, whatever the clock on the wall did meanwhile."""

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.worker.telemetry.burner import Burner
from worker.telemetry import host, processes
from worker.telemetry.host import NO_ENGINE_FOUND, NO_ENGINE_NAMED, NOT_COUNTED, HostReader
from worker.telemetry.names import (
    CLOCK_OFFSET,
    ENGINE_CPU,
    ENGINE_RSS,
    FOREIGN_CPU,
    HARNESS_CPU,
    SAMPLER_CPU,
    STOLEN_CPU,
    Reading,
)
from worker.telemetry.plan import SamplingPlan

BURN_S = 0.5
_SET_CHILD_SUBREAPER, _GET_CHILD_SUBREAPER = 36, 37
TICK_S = 0.011
"""Linux tells a process's time in hundredths of a second."""
MIB = 1024**2


def plan(**fields: object) -> SamplingPlan:
    return SamplingPlan(path="", **fields)  # pyright: ignore[reportArgumentType]


def grown(before: Reading, after: Reading, name: str) -> float:
    first, last = before[name], after[name]
    assert isinstance(first, float | int)
    assert isinstance(last, float | int)
    return last - first


def test_what_the_engine_burns_is_the_engines() -> None:
    with Burner() as engine, Burner() as client:
        reader = HostReader(plan(engine_pid=engine.pid, clients=(client.pid,)))
        before = reader.read()
        engine.burn(BURN_S)
        after = reader.read()
    assert grown(before, after, ENGINE_CPU) == pytest.approx(BURN_S, abs=5 * TICK_S)
    assert grown(before, after, HARNESS_CPU) <= TICK_S


def test_what_a_stranger_burns_is_foreign() -> None:
    with Burner() as engine, Burner() as stranger:
        reader = HostReader(plan(engine_pid=engine.pid))
        before = reader.read()
        stranger.burn(2 * BURN_S)
        after = reader.read()
    assert grown(before, after, FOREIGN_CPU) > BURN_S
    assert grown(before, after, ENGINE_CPU) <= TICK_S


def test_what_the_client_and_the_worker_burn_is_the_harness() -> None:
    with Burner() as client, Burner() as worker:
        reader = HostReader(plan(clients=(client.pid,), worker_pid=worker.pid))
        before = reader.read()
        client.burn(BURN_S)
        worker.burn(BURN_S)
        after = reader.read()
    assert grown(before, after, HARNESS_CPU) == pytest.approx(2 * BURN_S, abs=10 * TICK_S)


def test_memory_that_the_engine_takes_is_seen() -> None:
    with Burner() as engine:
        reader = HostReader(plan(engine_pid=engine.pid))
        before = reader.read()
        engine.allocate(64 * MIB)
        after = reader.read()
    assert grown(before, after, ENGINE_RSS) == pytest.approx(64 * MIB, rel=0.05)


@pytest.fixture(params=[False, True], ids=["init's orphans", "our orphans"])
def orphans(request: pytest.FixtureRequest) -> Iterator[None]:
    """To whom a grandchild falls whose parent has ended: a worker takes its engine's, and waits for them later."""
    libc, before = ctypes.CDLL(None), ctypes.c_int()
    libc.prctl(_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    libc.prctl(_SET_CHILD_SUBREAPER, int(request.param), 0, 0, 0)
    yield
    libc.prctl(_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)


@pytest.mark.usefixtures("orphans")
def test_a_double_fork_into_another_session_is_found_by_its_mark_and_its_time_stays_when_it_ends() -> None:
    with Burner(detached=True, MARK="of-the-engine") as engine, Burner(MARK="of-another") as stranger:
        engine.first_has_ended()
        reader = HostReader(plan(engine_mark="MARK=of-the-engine"))
        before = reader.read()
        engine.burn(BURN_S)
        stranger.burn(BURN_S)
        after = reader.read()
        (left,) = reader.engine_pids()
        os.kill(left, signal.SIGKILL)
        while left in reader.engine_pids():
            pass
    assert grown(before, after, ENGINE_CPU) == pytest.approx(BURN_S, abs=5 * TICK_S)
    assert reader.read()[ENGINE_CPU] == NO_ENGINE_FOUND
    with suppress(ChildProcessError):
        os.waitpid(left, 0)


def test_a_host_has_clocks_and_says_what_it_cannot_tell() -> None:
    reading = HostReader(plan()).read()
    assert reading[ENGINE_CPU] == reading[ENGINE_RSS] == NO_ENGINE_NAMED
    assert reading[FOREIGN_CPU] == reading[STOLEN_CPU] == reading[SAMPLER_CPU] == 0
    assert isinstance(reading[CLOCK_OFFSET], int)
    assert HostReader(plan(engine_pid=2**22 + 1)).read()[ENGINE_RSS] == NO_ENGINE_FOUND


class FakeProc:
    """A ``/proc`` of our own, whose sums are exact."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "uptime").write_text("1000000.0 0")

    def processors(self, *, user: int, stolen: int = 0) -> None:
        columns = (user, 0, 0, 7_000, 80, 0, 0, stolen, 50, 0)
        (self.path / "stat").write_text(f"cpu  {' '.join(map(str, columns))}\ncpu0 0\n")

    def process(self, pid: int, *, parent: int = 1, own: int = 0, waited_for: int = 0, started: int = 5) -> None:
        fields = ["0"] * 50
        fields[0], fields[1], fields[3] = "S", str(parent), str(pid)
        fields[11], fields[13], fields[19], fields[21] = str(own), str(waited_for), str(started), "10"
        (self.path / str(pid)).mkdir(exist_ok=True)
        (self.path / str(pid) / "stat").write_text(f"{pid} (a name) with brackets) {' '.join(fields)}")

    def end(self, pid: int) -> None:
        (self.path / str(pid) / "stat").unlink()
        (self.path / str(pid)).rmdir()


@pytest.fixture
def proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeProc:
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    monkeypatch.setattr(host, "_STAT", tmp_path / "stat")
    monkeypatch.setattr(host.time, "process_time", lambda: 0.0)
    fake = FakeProc(tmp_path)
    fake.processors(user=10_000, stolen=300)
    return fake


def test_foreign_is_all_that_was_busy_less_what_is_ours(proc: FakeProc) -> None:
    proc.process(10, own=500, waited_for=100)
    proc.process(11, parent=10, own=50)
    proc.process(20, own=70)
    proc.process(30, own=9_000)
    reader = HostReader(plan(engine_pid=10, clients=(20,), worker_pid=30))
    first = reader.read()
    assert (first[ENGINE_CPU], first[ENGINE_RSS]) == (6.5, 20 * os.sysconf("SC_PAGE_SIZE"))
    proc.process(11, parent=10, own=250)
    proc.process(20, own=170)
    proc.process(30, own=9_040, waited_for=99_999)
    proc.processors(user=10_400, stolen=325)
    after = reader.read()
    assert after[ENGINE_CPU] == 8.5
    assert after[HARNESS_CPU] == pytest.approx(1.4)
    assert after[FOREIGN_CPU] == pytest.approx(4.0 - 2.0 - 1.4)
    assert after[STOLEN_CPU] == pytest.approx(0.25)


def test_the_time_of_those_that_ended_is_counted_once(proc: FakeProc) -> None:
    proc.process(10, own=100)
    proc.process(11, parent=10, own=200)
    proc.process(12, parent=11, own=400)
    reader = HostReader(plan(engine_pid=10))
    assert reader.read()[ENGINE_CPU] == 7
    proc.process(10, own=100, waited_for=210)
    proc.end(11)
    proc.process(12, parent=1, own=420)
    assert reader.read()[ENGINE_CPU] == pytest.approx(7.3)
    proc.end(12)
    assert reader.read()[ENGINE_CPU] == pytest.approx(7.3)
    proc.end(10)
    assert reader.read()[ENGINE_CPU] == NO_ENGINE_FOUND


def test_a_pid_that_is_given_again_is_another_process(proc: FakeProc) -> None:
    proc.process(10, own=100)
    proc.process(11, parent=10, own=100)
    reader = HostReader(plan(engine_pid=10))
    reader.read()
    proc.process(11, parent=1, own=5_000, started=6)
    proc.process(10, own=100, waited_for=100)
    assert reader.read()[ENGINE_CPU] == 2


def test_a_process_before_its_exec_is_looked_at_again(proc: FakeProc) -> None:
    (proc.path / "uptime").write_text("10.5 0")
    proc.process(40, started=1000)
    reader = HostReader(plan(engine_mark="TAG=mine"))
    assert reader.read()[ENGINE_CPU] == NO_ENGINE_FOUND
    (proc.path / "40" / "environ").write_bytes(b"A=1\0TAG=mine\0")
    assert reader.read()[ENGINE_CPU] == 0
    (proc.path / "40" / "environ").write_bytes(b"overwritten")
    assert reader.read()[ENGINE_CPU] == 0


def test_a_sandbox_that_counts_no_processor_time_says_so(proc: FakeProc) -> None:
    (proc.path / "stat").write_text("cpu  0 0 0 0 0 0 0 0 0 0\n")
    reading = HostReader(plan()).read()
    assert reading[FOREIGN_CPU] == reading[STOLEN_CPU] == NOT_COUNTED
