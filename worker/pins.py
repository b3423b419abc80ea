"""Check that this host can do what the manifest pinned, before any accelerator time is spent.

The same named checks that the form and the API ran against published documents are run on the host itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.domain.capability import HostCapability, RuntimeCapability
from app.domain.errors import FieldProblem, ManifestRefused
from app.domain.manifest import Manifest
from app.domain.preflight import preflight, problems_of
from app.settings import Settings
from worker.identity import capabilities, inspect_runtimes
from worker.model_files.tree import ModelRefused
from worker.models import digest_cache, resolve_model


@dataclass(frozen=True, slots=True)
class Pins:
    """The manifest's references as paths on this host, each verified against its digest."""

    executable: Path
    runtime: RuntimeCapability
    model_paths: dict[str, Path]

    @property
    def runtime_digest(self) -> str:
        """The digest of everything that is installed in the runtime."""
        return self.runtime.digest


def resolve_pins(manifest: Manifest, settings: Settings) -> Pins:
    """Paths for the runtime and every model.

    Raises ``ManifestRefused`` naming each pin that this host cannot honour and each check that refuses the manifest.
    """
    paths, problems = _resolved_models(manifest, settings)
    host = HostCapability.model_validate(capabilities(settings))
    problems += problems_of(preflight(manifest, host))
    runtime = next((r for r in host.runtimes if r.ref == manifest.runtime), None)
    if problems or runtime is None:
        raise ManifestRefused(*problems)
    return Pins(_executable(manifest, settings), runtime, paths)


def _resolved_models(manifest: Manifest, settings: Settings) -> tuple[dict[str, Path], list[FieldProblem]]:
    """Model reference → verified directory, and a problem for each that is not here."""
    paths: dict[str, Path] = {}
    problems: list[FieldProblem] = []
    digests = digest_cache(settings)
    for field, reference in _references(manifest):
        if reference in paths:
            continue
        try:
            paths[reference] = resolve_model(
                reference, settings.model_root, field=field, digests=digests, online=settings.online
            )
        except ModelRefused as refusal:
            problems += refusal.problems
    return paths, problems


def _references(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Each field that names a model, and the model."""
    yield "target_model", manifest.target_model
    yield "target_tokenizer", manifest.target_tokenizer
    for index, arm in enumerate(manifest.arms):
        if arm.draft_or_speculator != "none":
            yield f"arms[{index}].draft_or_speculator", arm.draft_or_speculator


def _executable(manifest: Manifest, settings: Settings) -> Path:
    found = next(r for r in inspect_runtimes(settings.runtime_root) if r.ref == manifest.runtime)
    return found.executable
