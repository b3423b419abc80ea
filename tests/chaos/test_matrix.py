"""The crash matrix: at each point something is killed, stopped, flushed or filled; what must then be true is said.

Final state, nobody left by tag, accelerator free, no request twice or missing, other experiments untouched.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from app import embedded
from app.domain.lifecycle import RunState, SessionState
from app.domain.vocabulary import FailureClass
from app.queue import wake
from tests.chaos.house import House, engines, experiment, processes_below
from tests.conftest import libpq_url

BOTH = {"target-only", "ngram-k4"}
TARGET_IN = {
    "STARTING": "starting",
    "WARMING": "warming",
    "MEASURING": "slow",
    "DRAINING": "draining",
}
"""State → the target whose sessions stay in it for a moment."""


@pytest.mark.parametrize("state", TARGET_IN)
async def test_celery_child_killed(house: House, state: str) -> None:
    async with experiment(house, TARGET_IN[state], name=f"child-{state.lower()}") as watched:
        await watched.reaches(state)
        house.kill(house.holder())
        assert (await watched.ends()).state == "FINISHED"
        assert watched.attempts == [2]
        await watched.assert_whole()


async def test_celery_child_killed_while_its_last_commit_waits(house: House) -> None:
    async with experiment(house, "slow", name="finalizing") as watched:
        await watched.until(lambda now: now.runs_done == 3)
        with psycopg.connect(libpq_url(house.url)) as connection:  # only the end of a block needs the accelerator's row
            connection.execute("SELECT name FROM accelerator FOR UPDATE")
            await watched.until(lambda now: now.sessions_done == 2)
            await _waits_for_a_lock(house)
            house.kill(house.holder())
        assert (await watched.ends()).state == "FINISHED"
        assert watched.attempts == [2]
        await watched.assert_whole()
        assert len(watched.sessions()) == 2  # nothing was measured again


async def test_what_was_finished_before_the_kill_is_not_measured_again(house: House) -> None:
    async with experiment(house, "slow", name="resumed") as watched:
        await watched.until(lambda now: now.runs_done == 3)
        house.kill(house.holder())
        await watched.ends()
        await watched.assert_whole()
        evidence = await watched.evidence()
        assert len(evidence.runs) == 5  # four that count, and the half of one that was under way
        assert [r.state for r in evidence.runs].count(RunState.LOST) == 1
        assert sorted(s.state for s in evidence.sessions) == ["LOST", "SUCCEEDED", "SUCCEEDED"]


async def test_an_orphan_of_a_killed_child_is_swept_before_the_next_engine(house: House) -> None:
    async with experiment(house, "orphan", name="orphan") as watched:
        await watched.reaches("MEASURING")
        before = set(engines(house))
        assert len(before) > 1
        house.kill(house.holder())
        await watched.until(lambda now: now.sessions_done >= 1)
        assert not before & set(engines(house))
        await watched.ends()
        await watched.assert_whole()


async def test_celery_parent_killed(house: House) -> None:
    async with experiment(house, "slow", name="parent") as watched:
        await watched.reaches("MEASURING")
        below = processes_below(house.parent)
        house.kill(house.parent)
        assert house.worker is not None
        house.worker.wait()
        for pid in below:
            await _gone(pid)
        assert engines(house) == []
        house.start_worker()
        assert (await watched.ends()).state == "FINISHED"
        assert watched.attempts == [1]  # it handed over in order
        await watched.assert_whole()


async def test_power_cut(house: House) -> None:
    async with experiment(house, "slow", name="power") as watched:
        await watched.reaches("MEASURING")
        assert house.worker is not None
        house.kill(house.parent, *processes_below(house.parent))
        house.worker.wait()
        house.start_worker()
        assert (await watched.ends()).state == "FINISHED"
        await watched.assert_whole()


async def test_engine_killed(house: House) -> None:
    async with experiment(house, "slow", name="engine") as watched:
        first = (await watched.reaches("MEASURING")).current
        assert first is not None
        house.kill(*engines(house))
        assert (await watched.ends()).state == "FINISHED"
        assert watched.attempts == [1]
        await watched.assert_whole(arms=BOTH - {first.arm})
        [failed] = [s for s in (await watched.evidence()).sessions if s.state is SessionState.FAILED]
        assert failed.arm == first.arm
        assert failed.failure is not None
        assert failed.failure.failure_class in {FailureClass.ENGINE_DEAD, FailureClass.OOM}


async def test_replay_process_killed(house: House) -> None:
    async with experiment(house, "slow", name="replay") as watched:
        await watched.reaches("MEASURING")
        house.kill(await house.replaying())
        assert (await watched.ends()).state == "FINISHED"
        assert watched.attempts == [2]
        await watched.assert_whole()
        lost = "SELECT failure ->> 'failure_class' FROM run WHERE state = 'LOST' AND fence = 1 AND session_id = ANY(%s)"
        assert house.query(lost, list(watched.sessions())) == [("INFRA",)]


async def test_retry_budget_used_up(house: House) -> None:
    async with experiment(house, "slow", name="budget") as watched:
        for attempt in (1, 2, 3):
            await watched.until(lambda _, n=attempt: watched.attempts == [n])
            await watched.reaches("MEASURING")
            house.query("UPDATE block SET not_before = NULL")
            house.kill(await house.replaying())
            await watched.until(lambda now: now.current is None or now.state == "FAILED")
            house.query("UPDATE block SET not_before = NULL")
        ended = await watched.ends()
        assert ended.state == "FAILED"
        assert FailureClass.INFRA in {f.failure_class for f in ended.failures}
        watched.assert_nobody_left()


async def test_worker_stopped_beyond_its_lease_and_continued(house: House) -> None:
    async with experiment(house, "slow", name="zombie") as watched:
        await watched.reaches("MEASURING")
        zombie = house.holder()
        house.kill(zombie, signal_number=signal.SIGSTOP)
        await asyncio.sleep(house.settings.lease_s + 2)
        before = house.query("SELECT count(*) FROM observation")
        house.kill(zombie, signal_number=signal.SIGCONT)
        assert (await watched.ends()).state == "FINISHED"
        assert watched.attempts == [2]
        await watched.assert_whole()
        assert before <= house.query("SELECT count(*) FROM observation")


async def test_redis_stopped_for_good_and_started_again(house: House) -> None:
    async with experiment(house, "slow", name="redis-stopped") as watched:
        await watched.reaches("MEASURING")
        embedded.stop_redis(house.home)
        assert (await watched.ends()).state == "FINISHED"
        assert watched.attempts == [1]
        await watched.assert_whole()
    embedded.start_redis(house.home)
    async with experiment(house, "plain", name="redis-back") as watched:
        assert (await watched.ends()).state == "FINISHED"
        await watched.assert_whole()


async def test_redis_flushed_and_poked_a_hundred_times(house: House) -> None:
    async with experiment(house, "slow", name="redis-flushed") as watched:
        await watched.reaches("MEASURING")
        embedded._redis(house.home).flushall()
        for _ in range(100):
            wake(house.settings, watched.manifest.hardware.accelerator)
        assert (await watched.ends()).state == "FINISHED"
        assert watched.attempts == [1]
        await watched.assert_whole()


async def test_postgres_restarted(house: House) -> None:
    async with experiment(house, "slow", name="postgres") as watched:
        await watched.reaches("MEASURING")
        embedded.stop_postgres(house.home)
        embedded.start_postgres(house.home)
        assert (await watched.ends()).state == "FINISHED"
        await watched.assert_whole()


async def test_every_database_connection_killed_again_and_again(house: House) -> None:
    async with experiment(house, "slow", name="backends") as watched:
        await watched.reaches("STARTING")
        for _ in range(5):
            house.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
            await asyncio.sleep(0.7)
        assert (await watched.ends()).state == "FINISHED"
        await watched.assert_whole()


async def test_database_read_only_for_a_while(house: House) -> None:
    async with experiment(house, "slow", name="read-only") as watched:
        await watched.reaches("MEASURING")
        _set_read_only(house, "on")
        await asyncio.sleep(2)
        _set_read_only(house, "off")
        assert (await watched.ends()).state == "FINISHED"
        await watched.assert_whole()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
async def test_disk_full_when_evidence_is_stored(house: House) -> None:
    house.settings.artifact_root.mkdir(exist_ok=True)
    async with experiment(house, "slow", name="full") as watched:
        await watched.reaches("STARTING")
        with _full_disk_at(house.settings.artifact_root):
            await watched.until(lambda now: now.current is None)
        assert (await watched.ends()).state == "FINISHED"
        assert watched.attempts == [2]
        await watched.assert_whole()


@pytest.mark.parametrize(
    ("target", "failure_class", "words"),
    [
        ("frozen", FailureClass.HANG, "its counters stood still"),
        ("flood", FailureClass.ENGINE_DEAD, "MiB of log"),
        ("memory", FailureClass.OOM, "OutOfMemoryError"),
        ("hang", FailureClass.HANG, "its log is silent"),
    ],
)
async def test_engine_that_misbehaves(house: House, target: str, failure_class: FailureClass, words: str) -> None:
    async with experiment(house, target, name=f"engine-{target}") as watched:
        assert (await watched.ends()).state == "FINISHED"
        assert watched.attempts == [1]
        await watched.assert_whole(arms={"target-only"})
        [failed] = [s for s in (await watched.evidence()).sessions if s.state is SessionState.FAILED]
        assert failed.arm == "ngram-k4"
        assert failed.failure is not None
        assert failed.failure.failure_class is failure_class
        assert words in failed.failure.message
        assert failed.log_sha256 is not None
        log = house.settings.artifact_root / failed.log_sha256[:2] / failed.log_sha256
        assert log.stat().st_size < 32 * 1024**2


async def test_canceled_in_queue(house: House) -> None:
    async with experiment(house, "slow", name="holds") as holder, experiment(house, "slow", name="waits") as watched:
        await holder.reaches("MEASURING")
        await watched.cancel()
        waiting = await watched.read()
        assert (waiting.state, waiting.runs_done) == ("CANCELED", 0)
        assert (await holder.ends()).state == "FINISHED"
        await holder.assert_whole()


@pytest.mark.parametrize("state", TARGET_IN)
async def test_canceled(house: House, state: str) -> None:
    async with experiment(house, TARGET_IN[state], name=f"cancel-{state.lower()}") as watched:
        await watched.reaches(state)
        await watched.cancel()
        await watched.cancel()
        assert (await watched.ends()).state == "CANCELED"
        watched.assert_nobody_left()
        open_rows = "SELECT state FROM session WHERE state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELED', 'LOST')"
        assert house.query(open_rows) == []


async def test_deployed_anew_in_the_middle(house: House) -> None:
    async with experiment(house, "slow", name="deploy") as watched:
        await watched.until(lambda now: now.runs_done == 3)
        assert house.stop_worker() == 0
        assert engines(house) == []
        assert house.query("SELECT state FROM block WHERE experiment_id = %s", watched.manifest.digest) == [("QUEUED",)]
        house.start_worker()
        assert (await watched.ends()).state == "FINISHED"
        assert watched.attempts == [1]
        await watched.assert_whole()


def _set_read_only(house: House, word: str) -> None:
    with psycopg.connect(libpq_url(house.url), autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(f"ALTER DATABASE verdraft SET default_transaction_read_only = {word}".encode())
    house.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")


@contextmanager
def _full_disk_at(directory: Path) -> Generator[None]:
    """Four pages, which the first file fills."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", directory], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", directory], check=True)


async def _waits_for_a_lock(house: House) -> None:
    while not house.query("SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):  # noqa: ASYNC110
        await asyncio.sleep(0.05)


async def _gone(pid: int) -> None:
    while True:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        await asyncio.sleep(0.05)
