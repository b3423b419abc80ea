"""The demo from nothing to a verdict: probe, freeze, upload, submit, follow. Resumes where it was."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from tokenizers import Tokenizer

from app.client import Refused, Service, complaint, problem
from app.demo.manifest import DRAFT_ALIAS, HEAD_ALIASES, TARGET_ALIAS, Platform, demo_manifest, skipped_arms
from app.demo.workloads import build_traces, demo_loads
from app.domain.errors import DomainError
from app.domain.manifest import Manifest, parse_manifest
from app.domain.trace import Trace
from app.settings import Settings
from app.terminal import EXIT_INTERRUPTED, EXIT_REFUSED
from app.watch import page_url, watch
from worker.identity import hardware, inspect_runtimes, software
from worker.models import model_digest
from worker.probe import probe

RUNTIME_NAME = "cpu"
_WITHOUT_VERDICT = ("FAILED", "CANCELED")
PROVISIONAL_RATES_RPS = (2.0, 8.0)
"""Only for the probe's own prompts; the frozen rates follow from what it measures."""


def run_demo(settings: Settings, *, blocks: int, full: bool, console: Console) -> int:
    """Run or resume the demo against the running service; returns the command's exit status.

    0 when there is a verdict (whatever it says), 1 when something refused or no block could be finished,
    130 when watching was interrupted.
    """
    try:
        with Service(f"http://127.0.0.1:{settings.port}") as service:
            return _run(service, settings, blocks, full=full, console=console)
    except DomainError as error:
        refusal = problem(error.title, *error.problems)
    except Refused as error:
        refusal = error.problem
    for line in complaint(refusal):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return EXIT_REFUSED


def _run(service: Service, settings: Settings, blocks: int, *, full: bool, console: Console) -> int:
    directory = settings.home / "demo" / f"{'full' if full else 'demo'}-{blocks}-blocks"
    platform = _platform(settings)
    for reason in skipped_arms(platform) if full else ():
        console.print(f"Skipped: {reason}", markup=False, highlight=False, soft_wrap=True)
    manifest = _frozen(directory, platform)
    if manifest is None:
        console.print("Probing this host for the demo's rates: one server, about a minute.")
        manifest = asyncio.run(_prepare(settings, directory, platform, blocks, full=full))
    console.print(f"Rates: {', '.join(f'{p.name} {p.offered}' for p in manifest.loads)}", highlight=False)
    for workload in manifest.workloads:
        service.upload_trace((directory / f"{workload.name}.jsonl").read_bytes())
    experiment = _submit(service, directory, manifest, console)
    console.print(
        f"Experiment {experiment['id'][:12]}: {page_url(service, experiment)}", highlight=False, soft_wrap=True
    )
    report = watch(service, experiment["id"], console)
    if report is None:
        return EXIT_INTERRUPTED
    return 0 if report.blocks_complete else EXIT_REFUSED


def _submit(service: Service, directory: Path, manifest: Manifest, console: Console) -> dict[str, Any]:
    """Submit, or follow what runs; one that ended without a verdict is tried again under the next seed."""
    experiment = service.submit(manifest.canonical())
    while experiment["state"] in _WITHOUT_VERDICT:
        console.print(f"The experiment {experiment['id'][:12]} is {experiment['state']}; submitting it anew.")
        manifest = manifest.model_copy(update={"schedule_seed": manifest.schedule_seed + 1})
        _freeze(directory, manifest)
        experiment = service.submit(manifest.canonical())
    return experiment


def _frozen(directory: Path, platform: Platform) -> Manifest | None:
    """The manifest of an earlier call, unless this host or its models have changed since."""
    path = directory / "manifest.json"
    if not path.exists():
        return None
    manifest = parse_manifest(json.loads(path.read_bytes()))
    pinned = (manifest.runtime, manifest.target_model, manifest.hardware, manifest.software)
    drafts = {arm.draft_or_speculator for arm in manifest.arms} - {"none"}
    here = (platform.runtime, platform.target, platform.hardware, platform.software)
    return manifest if pinned == here and drafts <= {platform.draft, *platform.heads.values()} else None


async def _prepare(settings: Settings, directory: Path, platform: Platform, blocks: int, *, full: bool) -> Manifest:
    draft = _Draft(
        Tokenizer.from_file(str(settings.model_root / TARGET_ALIAS / "tokenizer.json")), platform, blocks, full
    )
    provisional, traces = draft.at(*PROVISIONAL_RATES_RPS)
    capacity = await probe(settings, provisional, traces)
    manifest, traces = draft.at(capacity.latency_rps, capacity.near_saturation_rps)
    _write(directory, manifest, traces)
    return manifest


@dataclass(frozen=True, slots=True)
class _Draft:
    """The demo but for its rates."""

    tokenizer: Tokenizer
    platform: Platform
    blocks: int
    full: bool

    def at(self, latency_rps: float, near_saturation_rps: float) -> tuple[Manifest, tuple[Trace, ...]]:
        loads = demo_loads(latency_rps, near_saturation_rps)
        traces = build_traces(self.tokenizer, loads)
        return demo_manifest(self.platform, loads, traces, blocks=self.blocks, full=self.full), traces


def _write(directory: Path, manifest: Manifest, traces: tuple[Trace, ...]) -> None:
    """The manifest comes last and at once: where it is, its traces are complete."""
    directory.mkdir(parents=True, exist_ok=True)
    for trace in traces:
        (directory / f"{trace.header.name}.jsonl").write_bytes(trace.encode())
    _freeze(directory, manifest)


def _freeze(directory: Path, manifest: Manifest) -> None:
    temporary = directory / "manifest.json.new"
    temporary.write_bytes(manifest.canonical())
    temporary.replace(directory / "manifest.json")


def _platform(settings: Settings) -> Platform:
    runtimes = {runtime.name: runtime for runtime in inspect_runtimes(settings.runtime_root)}
    if RUNTIME_NAME not in runtimes:
        message = f"there is no runtime {RUNTIME_NAME} in {settings.runtime_root}"
        raise DomainError.of("runtime", message, "install it: verdraft runtime install cpu")
    heads = {method: alias for method, alias in HEAD_ALIASES.items() if (settings.model_root / alias).is_dir()}
    return Platform(
        runtime=runtimes[RUNTIME_NAME].ref,
        target=_local(settings, TARGET_ALIAS),
        draft=_local(settings, DRAFT_ALIAS),
        hardware=hardware(),
        software=software(),
        has_suffix_decoding=runtimes[RUNTIME_NAME].has_suffix_decoding,
        heads={method: _local(settings, alias) for method, alias in heads.items()},
    )


def _local(settings: Settings, alias: str) -> str:
    directory = settings.model_root / alias
    if not directory.is_dir():
        message = f"the model directory {alias} is missing from {settings.model_root}"
        raise DomainError.of("target_model", message, "restore it from the repository, or set VERDRAFT_MODEL_ROOT")
    return f"local:{alias}@sha256:{model_digest(directory)}"
