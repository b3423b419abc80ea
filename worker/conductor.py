"""The story of one block: check the pins, conduct each arm's session in order, close the block."""

import asyncio

import structlog

from app.db.session import Database
from app.domain.engine_version import schema_of
from app.domain.errors import DomainError
from app.domain.evidence import Failure
from app.domain.lifecycle import BlockState
from app.domain.schedule import plan
from app.domain.vocabulary import FailureClass
from app.evidence.repository import EvidenceRepository
from app.runs.repository import BlockRepository, ClaimedBlock, Fenced
from app.settings import Settings
from worker.bench import Bench
from worker.cores import split_cores
from worker.engine.containment import sweep_orphans
from worker.gpu import HostLock
from worker.identity import capabilities
from worker.lease import LEASE_S, CancelRequested, Lease, LeaseLost
from worker.pins import resolve_pins
from worker.prompts import open_for_replay
from worker.recorder import Recorder
from worker.replay.process import ReplayClient
from worker.session import conduct_session

log = structlog.get_logger()


async def conduct_queue(settings: Settings, worker: str) -> None:
    """Publish what this host can run, then conduct queued blocks until there is none to claim."""
    database = Database(settings.database_url.get_secret_value())
    try:
        await _publish(database, settings, worker)
        with HostLock(settings.home / "locks") as accelerator_is_ours:
            while accelerator_is_ours and (block := await _claim(database, worker)):
                await conduct_block(settings, database, block)
    finally:
        await database.dispose()


async def conduct_block(settings: Settings, database: Database, block: ClaimedBlock) -> None:
    """Conduct a claimed block and record how it ended; a lost lease records nothing."""
    bound = log.bind(experiment=block.experiment_id[:12], block=block.index, attempt=block.attempt)
    state, failure = BlockState.SUCCEEDED, None
    try:
        await Lease(database, block).hold(_tell(settings, database, block))
    except CancelRequested:
        state, failure = BlockState.CANCELED, _failure(FailureClass.CANCELED, "canceled on request")
    except (LeaseLost, Fenced):
        bound.warning("lease lost; another holder may have the block")
        return
    except DomainError as error:
        state, failure = BlockState.FAILED, _failure(FailureClass.CONFIG, str(error))
    except Exception as error:  # noqa: BLE001  (the task boundary: recorded, never lost)
        bound.exception("block failed")
        state, failure = BlockState.FAILED, _failure(FailureClass.INFRA, f"{type(error).__name__}: {error}")
    async with database.transaction() as session:
        await BlockRepository(session).finish(block.id, block.fence, state, failure)
    bound.info("block ended", state=state)


async def _tell(settings: Settings, database: Database, block: ClaimedBlock) -> None:
    sweep_orphans()
    # It may hash models or ask a runtime, while the lease needs its heartbeat.
    pins = await asyncio.to_thread(resolve_pins, block.manifest, settings)
    async with database.reader() as session:
        evidence = EvidenceRepository(session)
        stored = {w.name: (await evidence.open_trace(w.trace), w.trace) for w in block.manifest.workloads}
    traces = {name: open_for_replay(trace, digest, settings.prompt_root) for name, (trace, digest) in stored.items()}
    async with ReplayClient() as client:
        bench = Bench(
            experiment_id=block.experiment_id,
            block_index=block.index,
            manifest=block.manifest,
            traces=traces,
            executable=pins.executable,
            model_paths=pins.model_paths,
            model_facts_path=settings.home / "model-facts" / pins.runtime_digest,
            serve_flags=None if pins.runtime.unavailable else pins.runtime.serve_flags,
            schema=schema_of(pins.runtime.version, pins.runtime.serve_flags),
            startup_timeout_s=settings.startup_timeout_s,
            cores=split_cores(),
            client=client,
            recorder=Recorder(database, block, settings.artifact_root),
        )
        for planned in plan(block.manifest)[block.index].sessions:
            await conduct_session(bench, planned)


async def _publish(database: Database, settings: Settings, worker: str) -> None:
    document = await asyncio.to_thread(capabilities, settings)
    async with database.transaction() as session:
        await EvidenceRepository(session).publish_capabilities(worker.partition(":")[0], document)


async def _claim(database: Database, worker: str) -> ClaimedBlock | None:
    async with database.transaction() as session:
        repository = BlockRepository(session)
        await repository.reap_expired()
        return await repository.claim(worker, LEASE_S)


def _failure(failure_class: FailureClass, message: str) -> Failure:
    return Failure(failure_class=failure_class, message=message)
