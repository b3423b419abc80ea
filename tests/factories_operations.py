"""Hosts, queues and mishaps for the tests of operations, made by the repositories that workers use."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from app.accelerators.repository import AcceleratorRepository
from app.db.session import Database
from app.domain.evidence import Failure
from app.domain.lifecycle import BlockState, RunState, SessionState
from app.domain.vocabulary import FailureClass
from app.evidence.repository import EvidenceRepository
from app.experiments.repository import ExperimentRepository
from app.leases.repository import Claimant, ClaimedBlock, LeaseRepository
from app.runs.repository import SessionRepository
from tests.factories import make_manifest, make_trace

GPU = "NVIDIA H200"
GPUS = ("GPU-aaaa", "GPU-bbbb", "GPU-cccc")
DISK_FULL = "its disk is nearly full: 12 MiB are free, 1024 MiB are needed"


@dataclass(frozen=True, slots=True)
class Floor:
    """What happens on the hosts, each call its own transaction."""

    database: Database

    async def publish(self, host: str, kind: str = GPU, names: tuple[str, ...] = GPUS, idle: str | None = None) -> None:
        """A worker of ``host`` says what it has."""
        async with self.database.transaction() as session:
            await EvidenceRepository(session).publish_capabilities(host, {}, idle)
            await AcceleratorRepository(session).publish(host, dict.fromkeys(names, kind))

    async def register(
        self, name: str, *, kind: str = GPU, count: int = 1, owner: str = "local", priority: int = 0, **keywords: Any
    ) -> str:
        """An experiment with two blocks, unless ``blocks`` says otherwise; its digest."""
        hardware = {"accelerator": kind, "count": count, "topology": "one"}
        manifest = make_manifest(name=name, hardware=hardware, **keywords)
        async with self.database.transaction() as session:
            await EvidenceRepository(session).store_trace(make_trace())
            await ExperimentRepository(session).add(manifest, owner, priority)
        return manifest.digest

    async def claim(self, worker: str, kind: str = GPU, names: tuple[str, ...] = GPUS) -> ClaimedBlock:
        """The next block, which must be there."""
        async with self.database.transaction() as session:
            block = await LeaseRepository(session).claim(Claimant(worker, kind, names), 60)
        assert block is not None
        return block

    async def fail_run(self, block: ClaimedBlock, failure: Failure) -> None:
        """A session whose first run fails, and which fails with it."""
        async with self.database.transaction() as session:
            sessions = SessionRepository(session)
            session_id = await sessions.start_session(block.id, block.fence, "target-only", 0)
            for state in (SessionState.WARMING, SessionState.MEASURING):
                await sessions.move_session(session_id, block.fence, state)
            run_id = await sessions.start_run(session_id, block.fence, "tasks", "low")
            await sessions.finish_run(
                run_id, block.fence, RunState.FAILED, failure=failure, counters=None, summary=None
            )
            await sessions.move_session(session_id, block.fence, SessionState.FAILED, failure)

    async def finish(self, block: ClaimedBlock, state: BlockState, failure: Failure | None = None) -> None:
        async with self.database.transaction() as session:
            await LeaseRepository(session).finish(block.id, block.fence, state, failure)

    async def give_back(self, block: ClaimedBlock, failure: Failure) -> None:
        async with self.database.transaction() as session:
            await LeaseRepository(session).give_back(block.id, block.fence, failure)

    async def quarantine(self, host: str, name: str, reason: str) -> None:
        async with self.database.transaction() as session:
            await AcceleratorRepository(session).quarantine(host, [name], reason)

    async def run(self, statement: str, **values: Any) -> None:
        """Let time pass, which no repository can."""
        async with self.database.transaction() as session:
            await session.execute(text(statement), values)

    async def expire(self, block: ClaimedBlock, seconds: int = 1) -> None:
        """Let a lease have run out."""
        await self.run(
            "UPDATE block SET lease_expires_at = now() - make_interval(secs => :seconds) WHERE id = :id",
            seconds=seconds,
            id=block.id,
        )

    async def silence(self, host: str, seconds: int) -> None:
        """Let nothing have been heard of a host."""
        for statement in (
            "UPDATE accelerator SET seen_at = now() - make_interval(secs => :seconds) WHERE host = :host",
            "UPDATE worker_capability SET seen_at = now() - make_interval(secs => :seconds) WHERE worker = :host",
        ):
            await self.run(statement, seconds=seconds, host=host)


async def busy_floor(database: Database) -> Floor:
    """Three hosts: one at work with a GPU aside, one whose disk is full, one silent; failures of three classes."""
    floor = Floor(database)
    await floor.publish("gpu1")
    await floor.publish("mill", "AMD EPYC 9654", ("cpu-0",), DISK_FULL)
    await floor.publish("gpu2", names=("GPU-dddd",))
    await floor.silence("gpu2", 600)
    await floor.quarantine("gpu1", "GPU-cccc", "memory did not return to its baseline 60 s after: GPU-cccc by 812 MiB")
    await floor.register("fusion-draft", owner="ann", priority=5, blocks=4)
    await floor.register("ngram-sweep", owner="bob", blocks=3, schedule_seed=99)
    await floor.register("on-processors", kind="AMD EPYC 9654", blocks=2, schedule_seed=98)
    first = await floor.claim("gpu1:4711")
    await floor.fail_run(first, Failure(failure_class=FailureClass.OOM, message="CUDA out of memory <b>80 GiB</b>"))
    await floor.finish(first, BlockState.SUCCEEDED)
    lost = await floor.claim("gpu1:4711")
    await floor.give_back(lost, Failure(failure_class=FailureClass.INFRA, message="no space left on device"))
    later = "UPDATE block SET not_before = now() + interval '1 hour' WHERE id = :id"
    await floor.run(later, id=lost.id)
    await floor.claim("gpu1:4711")
    stale = await floor.claim("gpu1:4712")
    await floor.expire(stale, 90)
    return floor
