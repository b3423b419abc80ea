"""From what the command was asked to a plan of subjects and cases."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from app.domain.errors import DomainError
from app.manifests.reading import read_manifest
from app.settings import Settings
from worker.matrix.conduct import Matrix, open_matrix
from worker.regression.conduct import Keep, Plan, Say
from worker.regression.subject import METHODS, Subject, row_named, subjects_of, subjects_of_manifest, variant
from worker.regression.suite import cases_named
from worker.runtimes.registry import inspect_runtime


@dataclass(frozen=True, slots=True)
class Asked:
    """The command's own words."""

    runtime: str
    methods: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    manifest: Path | None = None
    arm: str | None = None


async def make_plan(settings: Settings, asked: Asked, say: Say, keep: Keep) -> Plan:
    """Raises ``DomainError`` where anything that was named is not here."""
    if (asked.manifest is None) != (asked.arm is None) or (asked.manifest and asked.methods):
        raise DomainError.of("manifest", "a manifest goes with an arm, and not with methods", "--manifest M --arm A")
    if asked.manifest is not None and asked.arm is not None:
        return await _of_manifest(settings, asked, asked.manifest, asked.arm, say=say, keep=keep)
    matrix = await asyncio.to_thread(open_matrix, settings, asked.runtime, fresh=False, say=say)
    return Plan(
        settings=settings,
        runtime=asked.runtime,
        runtime_digest=matrix.runtime.digest,
        subjects=subjects_of(matrix, asked.methods or METHODS),
        cases=cases_named(asked.cases),
        variant=lambda subject, row: _variant(matrix, subject, row),
        say=say,
        keep=keep,
    )


async def _of_manifest(settings: Settings, asked: Asked, written: Path, arm: str, *, say: Say, keep: Keep) -> Plan:
    manifest = read_manifest(written)
    return Plan(
        settings=settings,
        runtime=asked.runtime,
        runtime_digest=inspect_runtime(settings.runtime_root / asked.runtime).digest,
        subjects=await subjects_of_manifest(settings, asked.runtime, manifest, arm, written),
        cases=cases_named(asked.cases),
        variant=lambda _subject, _row: None,
        say=say,
        keep=keep,
    )


def _variant(matrix: Matrix, subject: Subject, row: str) -> Subject | None:
    """Another launch belongs to the method that it is a variant of."""
    return variant(matrix, subject, row) if row_named(row).method == subject.name else None
