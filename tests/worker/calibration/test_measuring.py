"""The real client against the real null engine, undisturbed and disturbed on purpose."""

import asyncio
import json
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from app.domain.arrival import ArrivalKind
from app.domain.client_range import ClientAttempt, ClientRange
from app.domain.errors import DomainError
from app.settings import Settings
from worker.accelerators import whole_host
from worker.calibrated import FILE_NAME, calibrated
from worker.calibration import ladders, measuring
from worker.calibration.ladders import SHORT, Ladder, Rung
from worker.calibration.measuring import Stand, calibrate_alone, open_stand
from worker.cli import app
from worker.cores import may_preempt, split_cores

TINY = Rung("short", SHORT, 50, 0.4)
STEADY = Rung("short", SHORT, 100, 2.0, ArrivalKind.CONSTANT)
HOPELESS = Rung("short", SHORT, 1_000_000, 0.001)
"""A thousand requests within a millisecond: nobody sends one each microsecond."""
STOP_S = 0.5


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with open_stand(lambda _words: None) as opened:
        yield opened


def descendants(module: str) -> list[psutil.Process]:
    """Processes below this one that run ``module``, the youngest last."""
    found: list[psutil.Process] = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if module in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return sorted(found, key=lambda process: (process.create_time(), process.pid))


def replaying() -> psutil.Process:
    """The child that the client process forked for the replay."""
    (forked,) = [p for p in descendants("worker.replay.child") if Path(p.cwd()).name == "replay"]
    return forked


async def disturbed(stand: Stand, rung: Rung, disturb: Callable[[], object]) -> ClientAttempt:
    """An attempt that is disturbed once the first requests have arrived."""
    trying = asyncio.create_task(stand.attempt(rung, 1))
    while not await stand.referee.log():  # noqa: ASYNC110  (another process has no event to wait for)
        await asyncio.sleep(0.02)
    process = disturb()
    if isinstance(process, psutil.Process):
        await asyncio.sleep(STOP_S)
        process.resume()
    return await trying


def stopped(process: psutil.Process) -> psutil.Process:
    process.suspend()
    return process


async def test_an_attempt_counts_what_was_sent(stand: Stand) -> None:
    attempt = await stand.attempt(TINY, 1)
    assert (attempt.requests, attempt.unserved, attempt.damaged, attempt.failure) == (20, 0, 0, "")
    assert 1 <= attempt.concurrency <= 20
    assert attempt.chunks_per_s > 0
    assert attempt.achieved_share is not None
    late, sent, error = attempt.lateness, attempt.sent_lateness, attempt.receive_error
    assert late
    assert sent
    assert error
    assert 0 <= sent.p50_ns <= late.p50_ns <= late.p99_ns <= late.max_ns
    assert 0 <= error.p50_ns <= error.p99_ns <= error.max_ns
    assert stand.priority != "unknown"
    assert [path.name for path in stand.scratch.iterdir()] == ["null.sock"]


async def test_each_attempt_has_its_own_log(stand: Stand) -> None:
    await stand.attempt(TINY, 1)
    await stand.attempt(TINY, 2)
    assert [entry.request_id for entry in await stand.referee.log()] == [f"2-{i}" for i in range(20)]


@pytest.fixture
def few_files() -> Iterator[int]:
    """This process may open few files, though it could ask for more; yields how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard // 2, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_the_null_engine_has_its_cores_the_clients_priority_and_room_for_a_crowd(
    few_files: int, stand: Stand
) -> None:
    (engine,) = descendants("worker.replay.null_engine")
    assert tuple(sorted(engine.cpu_affinity() or ())) == split_cores().engine
    assert (os.sched_getscheduler(engine.pid) == os.SCHED_FIFO) is may_preempt()
    assert engine.rlimit(psutil.RLIMIT_NOFILE) == (few_files, few_files)


async def test_a_null_engine_that_stops_fails_the_cell(stand: Stand) -> None:
    attempt = await disturbed(stand, STEADY, lambda: stopped(descendants("worker.replay.null_engine")[0]))
    assert attempt.lateness
    assert attempt.lateness.max_ns > 100_000_000
    assert attempt.complaint.startswith("requests arrived late")


async def test_a_client_that_stops_fails_the_cell(stand: Stand) -> None:
    attempt = await disturbed(stand, STEADY, lambda: stopped(replaying()))
    assert attempt.sent_lateness
    assert attempt.sent_lateness.max_ns > 100_000_000
    assert attempt.complaint.startswith("requests arrived late")
    assert "sent in time" not in attempt.complaint


async def test_a_client_that_dies_fails_the_cell_and_the_next_has_another(stand: Stand) -> None:
    attempt = await disturbed(stand, STEADY, lambda: replaying().send_signal(signal.SIGKILL) or None)
    assert attempt.complaint.startswith("the client process ended with -9")
    assert attempt.unserved == attempt.requests == 200
    assert (await stand.attempt(TINY, 2)).unserved == 0


async def test_a_null_engine_that_dies_ends_the_calibration(stand: Stand) -> None:
    (engine,) = descendants("worker.replay.null_engine")
    engine.kill()
    engine.wait()
    with pytest.raises(DomainError, match="null_engine"):
        await stand.attempt(TINY, 1)


async def test_nothing_stays_behind(tmp_path: Path) -> None:
    said: list[str] = []
    found = await calibrate_alone(Settings(home=tmp_path), (Ladder((TINY,)),), quick=True, say=said.append)
    assert [(cell.shape, cell.rate_rps) for cell in found.cells] == [("short", 50)]
    assert 2 <= len(found.cells[0].attempts) <= 3
    assert said[:2] == ["warm-up, 100 requests/s, attempt 1", "short, 50 requests/s, attempt 1"]
    assert not descendants("worker.replay.null_engine")
    assert not descendants("worker.replay.child")


async def test_nothing_outlives_a_command_that_is_killed(tmp_path: Path) -> None:
    command = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from worker.cli import app; app()", "calibrate"),
        env={**os.environ, "VERDRAFT_HOME": str(tmp_path)},
        stderr=asyncio.subprocess.DEVNULL,
    )
    while not (descendants("worker.replay.null_engine") and descendants("worker.replay.child")):
        assert command.returncode is None
        await asyncio.sleep(0.05)
    below = psutil.Process(command.pid).children(recursive=True)
    command.kill()
    await command.wait()
    while any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in below):  # noqa: ASYNC110
        await asyncio.sleep(0.05)


async def test_an_experiment_that_runs_is_not_disturbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "LOCK_ATTEMPTS", 1)
    monkeypatch.setattr(measuring, "LOCK_PAUSE_S", 0)
    settings = Settings(home=tmp_path)
    with whole_host(settings) as ours:
        assert ours
        with pytest.raises(DomainError, match="an experiment is running"):
            await calibrate_alone(settings, (Ladder((TINY,)),), quick=True, say=lambda _words: None)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VERDRAFT_HOME", str(tmp_path))
    return tmp_path


def test_the_command_keeps_the_range_if_it_found_one(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladders, "quick", lambda: (Ladder((TINY,)),))
    answer = CliRunner().invoke(app, ["calibrate", "--quick", "--json"])
    told = json.loads(answer.stdout)
    found = ClientRange.model_validate(told)
    assert found.quick
    assert [cell["passed"] for cell in told["cells"]] == [cell.passed for cell in found.cells]
    assert answer.exit_code == (0 if found.passed else 1)
    assert told["kept"] == (str(home / FILE_NAME) if found.passed else None)
    assert calibrated(home).range == (found if found.passed else None)
    assert "short, 50 requests/s, attempt 1" in answer.stderr


def test_where_no_cell_passes_nothing_is_kept_and_it_exits_with_1(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladders, "full", lambda: (Ladder((HOPELESS,)),))
    answer = CliRunner().invoke(app, ["calibrate"], env={"COLUMNS": "200"})
    assert answer.exit_code == 1, answer.output
    assert "nothing is kept" in answer.stdout
    assert "2 of 2 attempts did not keep time" in answer.stdout
    assert not (home / FILE_NAME).exists()
