"""Reads what the service is doing, and takes accelerators out of use or puts them back. Opens the transactions."""

import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from app.accelerators.repository import AcceleratorFacts, AcceleratorRepository
from app.access.audit.repository import record
from app.db.session import Database
from app.domain.errors import IllegalTransition, NotFound
from app.domain.lifecycle import AcceleratorState
from app.experiments.repository import ExperimentRepository
from app.experiments.waiting import Supply
from app.leases.repository import host_of
from app.operations.attention import needing_attention
from app.operations.failures.repository import FailureViews
from app.operations.repository import OperationsRepository
from app.operations.schemas import AcceleratorRead, OperationsRead
from app.queue import wake
from app.settings import Settings

NEWEST_FAILURES = 20

log = structlog.stdlib.get_logger()


class OperationsService:
    """One per request; it holds no state of its own."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database, self._settings = database, settings

    async def operations(self) -> OperationsRead:
        """Everything at one moment."""
        async with self._database.reader() as session:
            return await _operations(session)

    async def accelerators(self) -> list[AcceleratorRead]:
        """Every accelerator, by host and name."""
        async with self._database.reader() as session:
            return _read(await ExperimentRepository(session).supply())

    async def accelerator(self, host: str, name: str) -> AcceleratorRead:
        """One accelerator; raises ``NotFound``."""
        return _one(await self.accelerators(), host, name)

    async def quarantine(self, host: str, name: str, reason: str) -> AcceleratorRead:
        """Let nothing start on it any more. Raises ``NotFound``, or ``IllegalTransition`` where it is so already."""
        async with self._database.transaction() as session:
            before = await _state(session, host, name)
            if before.state is AcceleratorState.QUARANTINED:
                message = f"{before.address} is in quarantine already: {before.reason}"
                raise IllegalTransition.of("accelerator", message, "release it first to give another reason")
            await AcceleratorRepository(session).quarantine(host, [name], reason)
            await record(session, "accelerator.quarantine", before.address, reason=reason)
            after = await _state(session, host, name)
        log.warning("accelerator quarantined", accelerator=after.address, reason=reason, was=before.state)
        return after

    async def release(self, host: str, name: str, reason: str) -> AcceleratorRead:
        """Use it again, and wake the workers. Raises ``NotFound``, or ``IllegalTransition`` where it is in use."""
        async with self._database.transaction() as session:
            before = await _state(session, host, name)
            if before.state is not AcceleratorState.QUARANTINED:
                message = f"{before.address} is {before.state}, not in quarantine"
                raise IllegalTransition.of("accelerator", message, "there is nothing to release")
            await AcceleratorRepository(session).release(host, name)
            await record(session, "accelerator.release", before.address, reason=reason)
            after = await _state(session, host, name)
        log.warning("accelerator released", accelerator=after.address, reason=reason, was=before.reason)
        wake(self._settings, after.kind)
        return after


async def _operations(session: AsyncSession) -> OperationsRead:
    repository, failures = OperationsRepository(session), FailureViews(session)
    supply = await ExperimentRepository(session).supply()
    queues, leases = await repository.queues(), await repository.leases()
    hosts = await repository.hosts({host_of(lease.worker) for lease in leases if lease.expires_in_s > 0})
    now = OperationsRead(
        at=supply.now,
        queues=queues,
        leases=leases,
        accelerators=_read(supply),
        hosts=hosts,
        failures=await failures.counts(),
        newest_failures=await failures.newest(NEWEST_FAILURES),
        retries=await failures.retries(),
        owners=await repository.owners(),
        experiments=dict(await repository.experiments()),
        database_bytes=await repository.database_bytes(),
    )
    return now.model_copy(update={"attention": needing_attention(now, supply)})


async def _state(session: AsyncSession, host: str, name: str) -> AcceleratorRead:
    return _one(_read(await ExperimentRepository(session).supply()), host, name)


def _one(accelerators: list[AcceleratorRead], host: str, name: str) -> AcceleratorRead:
    for accelerator in accelerators:
        if (accelerator.host, accelerator.name) == (host, name):
            return accelerator
    message = f"no worker has published {host}/{name}"
    raise NotFound.of("accelerator", message, "`verdraft accelerator list` shows those that are known")


def _read(supply: Supply) -> list[AcceleratorRead]:
    return [_accelerator(facts, supply) for facts in supply.accelerators]


def _accelerator(facts: AcceleratorFacts, supply: Supply) -> AcceleratorRead:
    return AcceleratorRead(
        host=facts.host,
        name=facts.name,
        kind=facts.kind,
        state=facts.state,
        reason=facts.reason,
        since=facts.since,
        in_state_s=max(0.0, (supply.now - facts.since).total_seconds()),
        seen_at=facts.seen_at,
        silent_s=supply.silent_s(facts),
        stale=supply.is_away(facts),
        experiment_id=facts.experiment,
        block=facts.block,
    )
