"""An experiment's evidence from Postgres and the artifact store into a directory, a few thousand rows at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from anyio import to_thread
from sqlalchemy.ext.asyncio import AsyncSession

from app.artifacts.store import ArtifactStore
from app.bundle.index import ArtifactLine, RunIndex
from app.bundle.writing import BundleWriter
from app.domain.client_range import CLIENT_RANGE
from app.evidence.packing import unpack_lines
from app.evidence.repository import EvidenceRepository, RunRecord
from app.evidence.schemas import ArtifactRead

STARTUP_LOG = "startup-log"
ALWAYS = frozenset({STARTUP_LOG, CLIENT_RANGE})


@dataclass(frozen=True, slots=True)
class Wish:
    """What goes along beside the evidence: start-up logs and the client's calibration always, all else on demand."""

    store: ArtifactStore
    with_raw: bool = False

    def includes(self, artifact: ArtifactRead) -> bool:
        """Whether the file is asked for, and here."""
        return (self.with_raw or artifact.kind in ALWAYS) and self.store.has(artifact.sha256)


async def spool(
    session: AsyncSession, experiment: str, directory: Path, wish: Wish | None = None
) -> tuple[RunIndex, ...]:
    """Everything of the committed attempts but the report; without a wish no files. Raises ``NotFound``."""
    repository = EvidenceRepository(session)
    manifest = await repository.manifest(experiment)
    with BundleWriter(directory, manifest) as writer:
        for workload in manifest.workloads:
            body = (await repository.open_trace(workload.trace)).body
            await to_thread.run_sync(writer.add_trace, workload.trace, unpack_lines(body))
        sessions, runs = await repository.session_records(experiment), await repository.run_records(experiment)
        writer.add_sessions(evidence for _, evidence in sessions)
        if wish is None:
            writer.add_artifacts([])
        else:
            await _add_artifacts(repository, writer, wish, [s for s, _ in sessions], [r.id for r in runs])
        await _add_runs(repository, writer, experiment, runs)
        return writer.close()


async def _add_runs(
    repository: EvidenceRepository, writer: BundleWriter, experiment: str, runs: Sequence[RunRecord]
) -> None:
    for run in runs:
        writer.open_run(run.evidence)
        async for rows in repository.read_rows(experiment, [run.id]):
            await to_thread.run_sync(writer.add_rows, [row[1:] for row in rows])
        series = await repository.read_series(experiment, [run.id])
        await to_thread.run_sync(writer.add_series, series.get(run.id, ()))


async def _add_artifacts(
    repository: EvidenceRepository, writer: BundleWriter, wish: Wish, sessions: Sequence[UUID], runs: Sequence[UUID]
) -> None:
    session_places = {key: place for place, key in enumerate(sessions)}
    run_places = {key: place for place, key in enumerate(runs)}
    found = await repository.artifacts(sessions, runs)
    await to_thread.run_sync(_copy, writer, wish, [artifact for _, artifact in found])
    writer.add_artifacts(
        [
            ArtifactLine(
                kind=artifact.kind,
                sha256=artifact.sha256,
                bytes=artifact.bytes,
                session=session_places.get(owner),
                run=run_places.get(owner),
                included=wish.includes(artifact),
            )
            for owner, artifact in found
        ]
    )


def _copy(writer: BundleWriter, wish: Wish, artifacts: Sequence[ArtifactRead]) -> None:
    """Each file once. Raises ``ArtifactDamaged``: a bundle of damaged evidence is none."""
    for sha256 in sorted({artifact.sha256 for artifact in artifacts if wish.includes(artifact)}):
        with writer.artifact(sha256) as file:
            wish.store.copy(sha256, file)
