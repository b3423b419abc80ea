"""Make the matrix of one runtime: every method that it lists, its variants, and target-only to compare them with."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from app.domain.capability import HostCapability, RuntimeCapability
from app.domain.errors import DomainError, ManifestRefused
from app.domain.launch import LaunchSpec, launch_spec
from app.domain.manifest import Arm, Manifest
from app.domain.preflight import preflight
from app.domain.vocabulary import BASELINE_ARM
from app.settings import Settings
from worker.accelerators import whole_host
from worker.cores import split_cores
from worker.identity import capabilities, hardware, software
from worker.matrix.cases import ARM, BASELINES, CASES, Case, deprecated, manifest_of
from worker.matrix.judging import Row, Statement, judge, statement_of, statement_of_refusal
from worker.matrix.models import make_models
from worker.matrix.outcome import EngineOutcome, Records
from worker.matrix.trial import attempt, with_speculation
from worker.runtimes.asked import capability_of
from worker.runtimes.registry import RuntimeIdentity, inspect_runtime, inspect_runtimes

HOME = "method-matrix"
MTP_SUFFIX = "_mtp"
STARTED_DEPRECATED = "mimo_mtp"
"""Of the old names of ``mtp`` the engine is started with this one; it treats them all alike."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Matrix:
    """One runtime on this host, with the matrix's own models."""

    settings: Settings
    runtime: RuntimeIdentity
    host: HostCapability
    records: Records
    say: Say

    @property
    def capability(self) -> RuntimeCapability:
        """What the runtime says of itself."""
        return next(r for r in self.host.runtimes if r.ref == self.runtime.ref)

    @property
    def references(self) -> dict[str, str]:
        """Alias → how a manifest names the model."""
        return {model.alias: model.ref for model in self.host.models if model.alias is not None}


def open_matrix(settings: Settings, name: str, *, fresh: bool, say: Say) -> Matrix:
    """Make the models and ask the runtime; ``fresh``: its engine shall be asked again where it has answered.

    Raises ``DomainError`` where there is no such runtime or it cannot be asked.
    """
    home = settings.home / HOME
    make_models(settings.model_root, home / "models")
    own = settings.model_copy(update={"model_root": home / "models"})
    runtime = inspect_runtime(settings.runtime_root / name)
    for found in inspect_runtimes(settings.runtime_root):
        capability_of(found, settings.home, say)  # asked here, so that what is said of it does not end up in an answer
    host = HostCapability.model_validate(capabilities(own))
    matrix = Matrix(own, runtime, host, Records(home, runtime.digest, fresh=fresh), say)
    if matrix.capability.unavailable:
        remedy = f"see `verdraft runtime inspect {name}`"
        raise DomainError.of("runtime", f"{name} cannot be asked: {matrix.capability.unavailable}", remedy)
    return matrix


def cases_of(capability: RuntimeCapability, only: Sequence[str] = ()) -> list[Case]:
    """The rows for this engine: our cases, its old names of ``mtp``, and names that no case covers."""
    covered = {case.method for case in CASES}
    old = [name for name in capability.methods if name.endswith(MTP_SUFFIX)]
    uncovered = [name for name in capability.methods if name not in covered and name not in old]
    listed = [*CASES, *(deprecated(name) for name in old)]
    listed += [
        Case(f"{name}, no case of ours", name, {"method": name, "num_speculative_tokens": 1}) for name in uncovered
    ]
    return [case for case in listed if not only or case.name in only or case.method in only]


async def run_matrix(matrix: Matrix, only: Sequence[str] = ()) -> list[Row]:
    """Every row. Raises ``DomainError`` where an experiment holds the accelerator."""
    with whole_host(matrix.settings) as ours:
        if not ours:
            raise DomainError.of("accelerator", "an experiment is running on this host", "wait for it, or cancel it")
        cases = cases_of(matrix.capability, only)
        needed = {case.target for case in cases}
        baselines = {b.target: await _outcome(matrix, b) for b in BASELINES if b.target in needed}
        return [await _row(matrix, case, baselines) for case in cases]


async def _row(matrix: Matrix, case: Case, baselines: dict[str, EngineOutcome | None]) -> Row:
    statement = _statement(matrix, case)
    return judge(case.name, case.method, statement, await _outcome(matrix, case), baselines.get(case.target))


def _statement(matrix: Matrix, case: Case) -> Statement:
    try:
        manifest = _manifest(matrix, case)
    except ManifestRefused as refused:
        return statement_of_refusal(refused, by_policy=case.is_policy)
    return statement_of(preflight(manifest, matrix.host), _arm_of(manifest, case).name)


async def _outcome(matrix: Matrix, case: Case) -> EngineOutcome | None:
    """What the engine does, from the records where it was asked before; ``None`` where there is nothing to start."""
    if case.method.endswith(MTP_SUFFIX) and case.method != STARTED_DEPRECATED:
        return None
    key = case.digest(matrix.references)
    known = matrix.records.get(key)
    if known is not None:
        return known
    matrix.say(f"starting {matrix.runtime.name} for {case.name}")
    with tempfile.TemporaryDirectory(prefix="verdraft-matrix-") as scratch:
        outcome = await _attempt(matrix, case, Path(scratch))
    matrix.records.put(key, outcome)
    return outcome


async def _attempt(matrix: Matrix, case: Case, scratch: Path) -> EngineOutcome:
    logs = matrix.settings.home / HOME / "logs" / matrix.runtime.name
    logs.mkdir(parents=True, exist_ok=True)
    spec, asked = launch(matrix, case, scratch)
    return await attempt(
        spec,
        logs / f"{case.name.replace(' ', '-').replace(',', '')}.log",
        asked=asked,
        model_facts_path=matrix.settings.home / "model-facts" / matrix.runtime.digest,
        tag=f"matrix:{uuid4()}",
    )


def launch(matrix: Matrix, case: Case, scratch: Path) -> tuple[LaunchSpec, tuple[Manifest, Arm] | None]:
    """The case's own launch, or target-only's with a speculative configuration that the product would not launch."""
    baseline_case = next(b for b in BASELINES if b.target == case.target)
    try:
        manifest = _manifest(matrix, case)
        arm = _arm_of(manifest, case)
        return _spec(matrix, manifest, arm, case, scratch), (manifest, arm)
    except ManifestRefused:
        manifest = _manifest(matrix, baseline_case)
        spec = _spec(matrix, manifest, manifest.baseline, baseline_case, scratch)
        return with_speculation(spec, _raw(matrix, case)), None


def _raw(matrix: Matrix, case: Case) -> dict[str, object]:
    """What the engine is told where neither manifest nor launch lets the case through, in the engine's own keys."""
    if case.raw:
        return case.raw
    told = {("rejection_sample_method" if k == "rejection_sampling" else k): v for k, v in case.speculation.items()}
    return told if case.draft is None else {**told, "model": str(matrix.settings.model_root / case.draft)}


def _manifest(matrix: Matrix, case: Case) -> Manifest:
    return manifest_of(case, matrix.references, runtime=matrix.runtime.ref, hardware=hardware(), software=software())


def _arm_of(manifest: Manifest, case: Case) -> Arm:
    name = BASELINE_ARM if case.method == "target_only" else ARM
    return next(arm for arm in manifest.arms if arm.name == name)


def _spec(matrix: Matrix, manifest: Manifest, arm: Arm, case: Case, scratch: Path) -> LaunchSpec:
    root, cores = matrix.settings.model_root, split_cores()
    return launch_spec(
        manifest,
        arm,
        executable=str(matrix.runtime.executable),
        target_path=str(root / case.target),
        tokenizer_path=str(root / case.target),
        draft_path=None if case.draft is None else str(root / case.draft),
        socket_path=str(scratch / "s"),
        cache_root=str(scratch / "cache"),
        engine_cores=",".join(map(str, cores.engine)),
        tree_cores=cores.engine_tree,
        serve_flags=matrix.capability.serve_flags,
    )
