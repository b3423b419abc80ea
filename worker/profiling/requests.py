"""Which requests are sent while profiling: the first of one load point, all due at once and served to their end."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.db.session import Database
from app.domain.errors import FieldProblem, ManifestRefused, TraceRefused
from app.domain.manifest import Arm, Manifest, WorkloadRef
from app.domain.trace import TraceRequest
from app.domain.vocabulary import WARMUP
from app.evidence.packing import CHUNK_BYTES, StoredTrace, pack_trace
from app.evidence.repository import EvidenceRepository
from app.settings import Settings
from app.workloads.storing import database_url
from worker.prompts import ReplayTrace, open_for_replay

WARMUP_MAX = 8
"""Enough for every shape of step to have been seen; a profiling run is no measurement."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Requests of one load point, and what is sent before them."""

    load: str
    warmup: tuple[TraceRequest, ...]
    requests: tuple[TraceRequest, ...]


def workload_of(manifest: Manifest, name: str) -> WorkloadRef:
    """The manifest's workload of that name. Raises ``ManifestRefused``."""
    found = next((workload for workload in manifest.workloads if workload.name == name), None)
    if found is None:
        raise _unknown("workloads", name, [workload.name for workload in manifest.workloads])
    return found


def arms_of(manifest: Manifest, names: Sequence[str]) -> tuple[Arm, ...]:
    """The arms of those names in the manifest's order; all where none is named. Raises ``ManifestRefused``."""
    known = [arm.name for arm in manifest.arms]
    for name in names:
        if name not in known:
            raise _unknown("arms", name, known)
    return tuple(arm for arm in manifest.arms if not names or arm.name in names)


def load_of(manifest: Manifest, name: str | None) -> str:
    """The load point of that name; the manifest's first where none is named. Raises ``ManifestRefused``."""
    names = [load.name for load in manifest.loads]
    if name is not None and name not in names:
        raise _unknown("loads", name, names)
    return name or names[0]


def open_workload(workload: WorkloadRef, file: Path | None, settings: Settings) -> ReplayTrace:
    """The workload's frozen trace, from ``file`` or else from the service's database. Raises ``DomainError``."""
    if file is None:
        stored = asyncio.run(_stored(database_url(settings), workload.trace))
        return open_for_replay(stored, workload.trace, settings.prompt_root)
    packed = pack_trace(_chunks(file))
    if packed.summary.digest != workload.trace:
        message = f"{file} is trace {packed.summary.digest[:12]}, and the manifest froze {workload.trace[:12]}"
        raise TraceRefused.of("workloads", message, f"give the file that {workload.name} was made of")
    return open_for_replay(StoredTrace(packed.body), workload.trace, settings.prompt_root)


def choose(trace: ReplayTrace, load: str, count: int) -> Chosen:
    """The load's first ``count`` requests. Raises ``TraceRefused`` where it has none.

    Without a warm-up in the trace the first requests are sent once more, before the others.
    """
    requests = tuple(_whole(trace.of_load(load), count))
    if not requests:
        raise TraceRefused.of("loads", f"the trace has no request of load {load}", "name another one with --load")
    return Chosen(load, tuple(_whole(trace.of_load(WARMUP), WARMUP_MAX)) or requests[:WARMUP_MAX], requests)


def _whole(requests: Sequence[TraceRequest], count: int) -> Iterator[TraceRequest]:
    """Without the ends that a client would make; a turn goes only after the one that it answers."""
    sent: set[str] = set()
    for request in requests:
        if len(sent) == count:
            return
        if request.turn is None or request.turn.previous is None or request.turn.previous in sent:
            sent.add(request.request_id)
            yield request.model_copy(update={"due_ns": 0, "deadline_ns": None, "cancel_at_ns": None})


async def _stored(url: str, digest: str) -> StoredTrace:
    database = Database(url, pooled=False)
    try:
        async with database.reader() as session:
            return await EvidenceRepository(session).open_trace(digest)
    finally:
        await database.dispose()


def _chunks(file: Path) -> Iterator[bytes]:
    with file.open("rb") as content:
        while chunk := content.read(CHUNK_BYTES):
            yield chunk


def _unknown(field: str, name: str, known: Sequence[str]) -> ManifestRefused:
    return ManifestRefused(FieldProblem(field, f"the manifest has no {name}", f"it has {', '.join(known)}"))
