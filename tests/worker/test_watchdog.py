"""What is watched is told apart by its counters: idle, at work, or frozen. Limits of zero need no clock."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.domain.evidence import Failure
from app.domain.vocabulary import FailureClass
from tests.fakes.metrics import EngineMetrics
from worker import watchdog
from worker.watchdog import Limits, Watch, WatchdogAlarm, under_watch

AT_ONCE, NEVER = 0.0, 1e9
MOVES = ("prompt_tokens_total", "generation_tokens_total", "iteration_tokens_total_count", "request_success_total")


def limits(home: Path, *, hang_timeout_s: float = AT_ONCE, free_bytes_min: int = 0) -> Limits:
    return Limits(hang_timeout_s, free_bytes_min, 0, home)


def exposition(running: float = 1, waiting: float = 0, **counters: float) -> str:
    gauges = {"num_requests_running": running, "num_requests_waiting": waiting}
    told = gauges | dict.fromkeys(MOVES, 5.0) | counters
    return "".join(f'vllm:{name}{{engine="0",model_name="a b"}} {value}\n' for name, value in told.items())


def looks(home: Path, *texts: str | None, hang_timeout_s: float = AT_ONCE) -> list[Failure | None]:
    """What each look at such expositions finds."""
    exposed: Iterator[str | None] = iter(texts)
    watch = Watch(limits(home, hang_timeout_s=hang_timeout_s), lambda: next(exposed), lambda: None)
    return [watch.alarm() for _ in texts]


def test_a_busy_engine_whose_counters_stand_still_hangs(tmp_path: Path) -> None:
    first, second = looks(tmp_path, exposition(running=3), exposition(running=3))
    assert first is None
    assert second is not None
    assert second.failure_class is FailureClass.HANG
    assert second.message.startswith("3 requests were in the engine and its counters stood still for")


def test_requests_that_only_wait_are_in_the_engine_too(tmp_path: Path) -> None:
    stuck = exposition(running=0, waiting=2)
    assert [found is None for found in looks(tmp_path, stuck, stuck)] == [True, False]


@pytest.mark.parametrize("counter", MOVES)
def test_any_counter_that_moves_is_progress(counter: str, tmp_path: Path) -> None:
    texts = [exposition(**{counter: float(step)}) for step in range(4)]
    assert looks(tmp_path, *texts) == [None] * 4
    assert looks(tmp_path, *texts, texts[-1])[-1] is not None


def test_an_idle_engine_never_hangs_and_its_idle_time_is_not_held_against_it(tmp_path: Path) -> None:
    idle, busy = exposition(running=0), exposition()
    assert looks(tmp_path, idle, idle, idle) == [None] * 3
    assert looks(tmp_path, busy, idle, busy, hang_timeout_s=NEVER) == [None] * 3


def test_an_engine_that_stands_still_for_less_than_the_limit_is_given_time(tmp_path: Path) -> None:
    assert looks(tmp_path, *[exposition()] * 5, hang_timeout_s=NEVER) == [None] * 5


def test_without_a_first_scrape_nothing_is_known(tmp_path: Path) -> None:
    assert looks(tmp_path, None, None, "") == [None] * 3


def test_the_text_of_the_fake_engine_is_understood(tmp_path: Path) -> None:
    metrics = EngineMetrics("target", 0)
    metrics.running.set(1)
    still = metrics.exposition().decode()
    assert looks(tmp_path, still, still)[-1] is not None


def test_a_flood_is_told_first_and_is_the_engines(tmp_path: Path) -> None:
    watch = Watch(limits(tmp_path, free_bytes_min=10**18), lambda: None, lambda: "it had written 300 MiB of log")
    assert watch.alarm() == Failure(failure_class=FailureClass.ENGINE_DEAD, message="it had written 300 MiB of log")


def test_a_disk_that_fills_is_not_the_engines_fault_and_leaves_room_to_finish(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free

    def found(free_bytes_min: int) -> Failure | None:
        return Watch(limits(tmp_path, free_bytes_min=free_bytes_min), lambda: None, lambda: None).alarm()

    assert found(free * 3 // 2) is None
    full = found(free * 4)
    assert full is not None
    assert full.failure_class is FailureClass.INFRA
    assert "disk is nearly full" in full.message


@pytest.fixture
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "PERIOD_S", 0.01)


class Work:
    """Goes on until it is stopped, and takes its time then."""

    def __init__(self) -> None:
        self.cleaned_up = False

    async def do(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            self.cleaned_up = True


def quiet(home: Path) -> Watch:
    return Watch(limits(home), lambda: None, lambda: None)


@pytest.mark.usefixtures("_often")
async def test_work_without_an_alarm_gives_what_it_found(tmp_path: Path) -> None:
    async def found() -> int:
        await asyncio.sleep(0.05)
        return 7

    assert await under_watch(found(), quiet(tmp_path)) == 7


@pytest.mark.usefixtures("_often")
async def test_an_alarm_is_raised_when_the_work_has_stopped(tmp_path: Path) -> None:
    work, frozen = Work(), exposition()
    watch = Watch(limits(tmp_path), lambda: frozen, lambda: None)
    with pytest.raises(WatchdogAlarm) as alarm:
        await under_watch(work.do(), watch)
    assert work.cleaned_up
    assert alarm.value.failure.failure_class is FailureClass.HANG


@pytest.mark.usefixtures("_often")
async def test_works_own_failure_is_told_as_it_is(tmp_path: Path) -> None:
    async def fail() -> None:
        raise ValueError("a failure of its own")

    with pytest.raises(ValueError, match="of its own"):
        await under_watch(fail(), quiet(tmp_path))


@pytest.mark.usefixtures("_often")
async def test_a_watch_that_cannot_look_stops_the_work(tmp_path: Path) -> None:
    work = Work()
    with pytest.raises(FileNotFoundError):
        await under_watch(work.do(), quiet(tmp_path / "gone"))
    assert work.cleaned_up


@pytest.mark.usefixtures("_often")
async def test_who_is_canceled_stops_the_work(tmp_path: Path) -> None:
    work = Work()
    watching = asyncio.create_task(under_watch(work.do(), quiet(tmp_path)))
    await asyncio.sleep(0.03)
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    assert work.cleaned_up
    assert len(asyncio.all_tasks()) == 1
