"""Runs the named checks against what workers have published and which traces are stored."""

from collections.abc import Iterator, Mapping

from sqlalchemy.ext.asyncio import AsyncSession

from app.db.session import Database
from app.domain.capability import HostCapability
from app.domain.estimate import CostEstimate, absurdities, estimate, measured_times
from app.domain.manifest import Manifest
from app.domain.preflight import SIZE, Check, preflight, refusing
from app.domain.preflight.outcome import Topic
from app.evidence.views.repository import EvidenceViews
from app.preflight.hosts import hosts_of
from app.preflight.repository import PastRepository
from app.preflight.schemas import PreflightRead
from app.preflight.traces import TraceLook, look_at_traces


class PreflightService:
    """One per request; it holds no state of its own and writes nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def check(self, manifest: Manifest) -> PreflightRead:
        """Every check of the manifest, on the published host that suits it best."""
        async with self._database.reader() as session:
            return await examine(session, manifest)


async def examine(session: AsyncSession, manifest: Manifest) -> PreflightRead:
    """The same within the caller's transaction."""
    traces = await look_at_traces(session, manifest)
    cost = estimate(manifest, traces.headers, measured_times(await PastRepository(session).sessions(manifest)))
    hosts = hosts_of(await EvidenceViews(session).capabilities())
    worker, checks = _best(manifest, hosts, traces)
    every = [*checks, *traces.checks, *_size(cost)]
    refused = bool(refusing(every))
    return PreflightRead(digest=manifest.digest, refused=refused, host=worker, checks=every, estimate=cost)


def _best(
    manifest: Manifest, hosts: Mapping[str, HostCapability], traces: TraceLook
) -> tuple[str | None, tuple[Check, ...]]:
    """The checks of the host that refuses least, among those that have the runtime."""
    able = {w: host for w, host in hosts.items() if any(r.ref == manifest.runtime for r in host.runtimes)}
    if not able:
        return None, preflight(manifest, None, traces.requested, traces.answers)
    found = {worker: preflight(manifest, host, traces.requested, traces.answers) for worker, host in able.items()}
    worker = min(found, key=lambda w: len(refusing(found[w])))
    return worker, found[worker]


def _size(cost: CostEstimate) -> Iterator[Check]:
    topic = Topic(SIZE, None, "blocks")
    found = [topic.at(p.field).fails(p.message, p.remedy) for p in absurdities(cost)]
    yield from found or [
        topic.passes(f"{cost.sessions} servers, {cost.requests:,} requests, about {cost.wall_minutes:,.0f} min")
    ]
