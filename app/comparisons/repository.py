"""Reports in Postgres by what they depend on."""

from collections.abc import Sequence

import zstandard
from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import ExperimentRow, ReportRow
from app.domain.lifecycle import ExperimentState
from app.domain.manifest import Manifest
from app.domain.vocabulary import Purpose
from app.experiments.glance import Glance


class ReportRepository:
    """Canonical JSON in and out, inside the caller's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def read(self, experiment: str, key: str) -> bytes | None:
        """The report of that key, if it was ever stored and is still the newest."""
        of_key = ReportRow.experiment == experiment, ReportRow.key == key
        document = await self._session.scalar(select(ReportRow.document).where(*of_key))
        return None if document is None else zstandard.decompress(document)

    async def store(self, experiment: str, key: str, document: bytes) -> None:
        """Keep a report in place of the experiment's earlier ones."""
        await self._session.execute(delete(ReportRow).where(ReportRow.experiment == experiment, ReportRow.key != key))
        row = insert(ReportRow).values(experiment=experiment, key=key, document=zstandard.compress(document))
        await self._session.execute(row.on_conflict_do_nothing())

    async def note(self, experiment: str, key: str, glance: Glance) -> None:
        """Keep the verdicts in short beside the report of that key; nothing happens if a newer one took its place."""
        of_key = ReportRow.experiment == experiment, ReportRow.key == key
        await self._session.execute(update(ReportRow).where(*of_key).values(glance=glance.model_dump(mode="json")))

    async def manifests(self, experiments: Sequence[str]) -> dict[str, Manifest]:
        """The manifests of these experiments, as far as they are there."""
        query = select(ExperimentRow.digest, ExperimentRow.manifest).where(ExperimentRow.digest.in_(experiments))
        rows = (await self._session.execute(query)).all()
        return {digest: Manifest.model_validate(document) for digest, document in rows}

    async def newest_calibration(self, manifest: Manifest) -> str | None:
        """The newest finished A/A experiment with the manifest's hardware, runtime and target."""
        stored = ExperimentRow.manifest
        alike = {
            "purpose": Purpose.HOST_CALIBRATION,
            "runtime": manifest.runtime,
            "target_model": manifest.target_model,
        }
        hardware = manifest.hardware.model_dump(mode="json", include={"accelerator", "count"})
        query = (
            select(ExperimentRow.digest)
            .where(ExperimentRow.state == ExperimentState.FINISHED)
            .where(stored.contains({**alike, "hardware": hardware}))
            .order_by(ExperimentRow.created_at.desc(), ExperimentRow.digest)
            .limit(1)
        )
        return await self._session.scalar(query)

    async def hold(self, key: str) -> None:
        """Wait until nobody else computes this report; the transaction's end lets the next one in."""
        await self._session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(key, 0))))
