"""Check that this host is what the manifest pinned, before any accelerator time is spent."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.domain.errors import FieldProblem, ManifestRefused
from app.domain.manifest import Manifest
from app.settings import Settings
from worker.identity import hardware, inspect_runtimes, resolve_model, software


@dataclass(frozen=True, slots=True)
class Pins:
    """The manifest's references as paths on this host, each verified against its digest."""

    executable: Path
    runtime_digest: str
    model_paths: dict[str, Path]


def resolve_pins(manifest: Manifest, settings: Settings) -> Pins:
    """Paths for the runtime and every model; raises ``ManifestRefused`` naming each pin this host cannot honour."""
    problems = [*_host_problems(manifest)]
    runtimes = {runtime.ref: runtime for runtime in inspect_runtimes(settings.runtime_root)}
    runtime = runtimes.get(manifest.runtime)
    if runtime is None:
        known = ", ".join(runtimes) or "none"
        problems.append(
            FieldProblem("runtime", f"{manifest.runtime} is not on this host (here: {known})", "install it")
        )
    if problems or runtime is None:
        raise ManifestRefused(*problems)
    drafts = {arm.draft_or_speculator for arm in manifest.arms} - {"none"}
    references = {manifest.target_model, manifest.target_tokenizer, *drafts}
    paths = {reference: resolve_model(reference, settings.model_root) for reference in sorted(references)}
    return Pins(runtime.executable, runtime.digest, paths)


def _host_problems(manifest: Manifest) -> Iterator[FieldProblem]:
    for field, pinned, found in (
        ("hardware", manifest.hardware, hardware()),
        ("software", manifest.software, software()),
    ):
        for name, value in pinned.model_dump().items():
            here = getattr(found, name)
            if here != value:
                yield FieldProblem(
                    f"{field}.{name}",
                    f"the manifest says {value!r}, this host is {here!r}",
                    "run it where it was pinned",
                )
