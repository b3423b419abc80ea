"""Reads several experiments with their reports."""

import asyncio
from collections.abc import Sequence

from app.across.beside import beside
from app.across.schemas import Across
from app.comparisons.service import ComparisonService
from app.domain.errors import NotFound
from app.experiments.schemas import ExperimentRead
from app.experiments.service import ExperimentService


class AcrossService:
    """One per request."""

    def __init__(self, experiments: ExperimentService, comparisons: ComparisonService) -> None:
        self._experiments = experiments
        self._comparisons = comparisons

    async def whole(self, references: Sequence[str]) -> Across:
        """With reports that are computed where they are not there; raises ``NotFound`` or ``EvidenceRefused``."""
        experiments = await self._read(references)
        return beside([(e, (await self._comparisons.known(e.id)).report) for e in experiments])

    async def ready(self, references: Sequence[str]) -> Across | tuple[ExperimentRead, ...]:
        """For a page: the experiments whose reports are still being computed, if there are any."""
        experiments = await self._read(references)
        found = await asyncio.gather(*(self._comparisons.ready(e.id) for e in experiments))
        missing = tuple(e for e, known in zip(experiments, found, strict=True) if known is None)
        return missing or beside([(e, k.report) for e, k in zip(experiments, found, strict=True) if k is not None])

    async def _read(self, references: Sequence[str]) -> list[ExperimentRead]:
        found = [await self._experiments.read(reference) for reference in references]
        if len({experiment.id for experiment in found}) < len(found):
            raise NotFound.of("of", "names an experiment twice", "name different experiments")
        return found
