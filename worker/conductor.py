"""The story of one block: check the pins, conduct each arm's session in order, ask mismatches again, close it."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog
from structlog.contextvars import bound_contextvars

from app.accelerators.repository import AcceleratorRepository
from app.artifacts.store import ArtifactStore
from app.db.session import Database
from app.domain.engine_version import schema_of
from app.domain.errors import DomainError
from app.domain.evidence import Failure
from app.domain.lifecycle import BlockState
from app.domain.resume import Resumption, resume
from app.domain.schedule import plan
from app.domain.vocabulary import FailureClass
from app.evidence.repository import EvidenceRepository
from app.leases.repository import Claimant, ClaimedBlock, Fenced, LeaseRepository, host_of
from app.queue import wake
from app.runs.repository import SessionRepository
from app.settings import Settings
from worker import accelerators
from worker.accelerators import AcceleratorBusy, Accelerators, AcceleratorUnfit, Held
from worker.bench import Bench, Interrupted
from worker.calibrated import FILE_NAME as CLIENT_RANGE_FILE
from worker.cores import split_cores
from worker.diagnosing import diagnose_block
from worker.engine.server import EngineLeftBehind
from worker.identity import capabilities
from worker.interim import look_after
from worker.lease import CancelRequested, HandOver, Lease, LeaseLost, Terms
from worker.pins import resolve_pins
from worker.prompts import open_for_replay
from worker.recorder import Recorder
from worker.replay.process import ReplayClient
from worker.sampling import score_block
from worker.scratch import sweep_scratch
from worker.session import conduct_session
from worker.watchdog import Limits

log = structlog.get_logger()

Leaving = Callable[[], bool]


def stays() -> bool:
    """The answer of a worker that nobody has asked to leave."""
    return False


async def conduct_queue(settings: Settings, worker: str, *, leaving: Leaving = stays) -> None:
    """Publish what this host can run, then conduct queued blocks until there is none to claim, or until ``leaving``."""
    settings.home.mkdir(parents=True, exist_ok=True)
    database = Database(settings.database_url.get_secret_value())
    try:
        offered = accelerators.offered(settings)
        await _publish(database, settings, worker, offered)
        while not leaving() and (block := await _claim(database, settings, worker, offered)):
            with bound_contextvars(experiment=block.experiment_id[:12], block=block.index, attempt=block.attempt):
                await conduct_block(settings, database, block, leaving=leaving)
    finally:
        await database.dispose()


async def conduct_block(
    settings: Settings, database: Database, block: ClaimedBlock, *, leaving: Leaving = stays
) -> None:
    """Conduct a claimed block and record how it ended; a lost lease records nothing."""
    log.info("block claimed", accelerators=block.accelerators, fence=block.fence)
    ending = _Ending(settings, database, block)
    terms = Terms(settings.lease_s, settings.heartbeat_s, settings.self_fence_s)
    try:
        with accelerators.hold(settings.lock_root, block.accelerators) as held:
            await Lease(database, block, terms, leaving).hold(_tell(settings, database, block, held))
        if await ending.finish(BlockState.SUCCEEDED):
            await look_after(settings, database, block)
    except (LeaseLost, Fenced):
        log.warning("lease lost; another holder may have the block")
    except CancelRequested:
        await ending.finish(BlockState.CANCELED, _failure(FailureClass.CANCELED, "canceled on request"))
    except HandOver:
        await ending.give_back(_failure(FailureClass.INFRA, "its worker was asked to leave"), tried=False)
    except AcceleratorBusy as error:
        await ending.give_back(_failure(FailureClass.INFRA, str(error)), tried=False)
    except (AcceleratorUnfit, EngineLeftBehind) as error:
        await ending.quarantine(str(error))
    except Interrupted as error:
        await ending.give_back(error.failure)
    except DomainError as error:
        await ending.finish(BlockState.FAILED, _failure(FailureClass.CONFIG, str(error)))
    except Exception as error:  # the task boundary: recorded, never lost
        log.exception("block failed")
        await ending.give_back(_failure(FailureClass.INFRA, f"{type(error).__name__}: {error}"))


@dataclass(frozen=True, slots=True)
class _Ending:
    """The last words about a block; where the lease is gone by then, whoever took it back has said them."""

    settings: Settings
    database: Database
    block: ClaimedBlock

    async def finish(self, state: BlockState, failure: Failure | None = None) -> bool:
        """Whether it was still this worker's to end."""

        def work(leases: LeaseRepository) -> Awaitable[None]:
            return leases.finish(self.block.id, self.block.fence, state, failure)

        return await self._say(work, state, failure)

    async def give_back(self, failure: Failure, *, tried: bool = True) -> None:
        def work(leases: LeaseRepository) -> Awaitable[None]:
            return leases.give_back(self.block.id, self.block.fence, failure, tried=tried)

        await self._say(work, "given back", failure)

    async def quarantine(self, reason: str) -> None:
        """Nothing runs on these accelerators again until a person has looked; the block goes elsewhere.

        It costs an attempt: an engine that cannot be ended must not take one accelerator of the fleet after the other.
        """
        log.error("accelerator quarantined", accelerators=self.block.accelerators, reason=reason)
        host, names = self.block.host, self.block.accelerators
        await self.database.persist(
            lambda session: AcceleratorRepository(session).quarantine(host, names, reason),
            patience_s=self.settings.self_fence_s,
        )
        await self.give_back(_failure(FailureClass.INFRA, reason))

    async def _say(
        self, work: Callable[[LeaseRepository], Awaitable[None]], outcome: str, failure: Failure | None
    ) -> bool:
        try:
            await self.database.persist(
                lambda session: work(LeaseRepository(session)), patience_s=self.settings.self_fence_s
            )
        except Fenced:
            log.warning("the block was taken back before it could be ended", outcome=outcome)
            return False
        told = {} if failure is None else {"failure_class": failure.failure_class, "failure": failure.message}
        log.info("block ended", outcome=outcome, **told)
        return True


async def _tell(settings: Settings, database: Database, block: ClaimedBlock, held: Held) -> None:
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
            limits=Limits.of(settings),
            cores=split_cores(settings.processor_places),
            held=held,
            client=client,
            client_range_path=settings.home / CLIENT_RANGE_FILE,
            recorder=Recorder(database, block, ArtifactStore(settings.artifacts), patience_s=settings.self_fence_s),
            live_url=settings.database_url.get_secret_value() if settings.live else None,
        )
        for planned in (await _resumption(database, block, bench)).sessions:
            await conduct_session(bench, planned)
        await diagnose_block(bench)
        await score_block(bench)


async def _resumption(database: Database, block: ClaimedBlock, bench: Bench) -> Resumption:
    """What is left of the block after the attempts before; their finished sessions and runs count on."""
    planned = plan(block.manifest)[block.index]
    indivisible = {arm.name for arm in block.manifest.arms if not bench.may_repeat(arm.name)}
    async with database.transaction() as session:
        repository = SessionRepository(session)
        earlier = await repository.earlier(block.id, block.fence)
        resumption = resume(planned, earlier, accelerators=block.addresses, indivisible=indivisible)
        await repository.adopt(block.id, block.fence, resumption.adopted)
    if earlier:
        log.info("block resumed", sessions_kept=len(resumption.adopted), restarted=resumption.restarted)
    return resumption


async def _publish(database: Database, settings: Settings, worker: str, offered: Accelerators) -> None:
    document = await asyncio.to_thread(capabilities, settings)
    host, kinds = host_of(worker), dict.fromkeys(offered.names, offered.kind)
    async with database.transaction() as session:
        await EvidenceRepository(session).publish_capabilities(host, document, _idle_because(settings))
        await AcceleratorRepository(session).publish(host, kinds)


def _idle_because(settings: Settings) -> str | None:
    """Why this host takes no blocks at present."""
    free = shutil.disk_usage(settings.home).free
    if free < settings.free_bytes_min:
        return (
            f"its disk is nearly full: {free / 1024**2:.0f} MiB are free, "
            f"{settings.free_bytes_min / 1024**2:.0f} MiB are needed (VERDRAFT_FREE_BYTES_MIN)"
        )
    return None


async def _claim(database: Database, settings: Settings, worker: str, offered: Accelerators) -> ClaimedBlock | None:
    """The next block, after waking another worker for the one after it."""
    sweep_scratch()
    if _idle_because(settings):
        return None
    idle = accelerators.idle(settings.lock_root, offered.names)
    async with database.transaction() as session:
        await LeaseRepository(session).reap_expired()
    async with database.transaction() as session:  # another one: it waits for its host, and reaping locks experiments
        leases = LeaseRepository(session)
        block = await leases.claim(Claimant(worker, offered.kind, idle), settings.lease_s)
        more = block is not None and await leases.queued(offered.kind) > 0
    if more and len(offered.names) > 1:
        wake(settings, offered.kind)
    return block


def _failure(failure_class: FailureClass, message: str) -> Failure:
    return Failure(failure_class=failure_class, message=message)
