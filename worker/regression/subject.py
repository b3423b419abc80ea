"""What is put to the test: the methods of a runtime on the small models, or one arm of a manifest as it is deployed."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app.domain.errors import DomainError
from app.domain.launch import LaunchSpec, launch_spec
from app.domain.manifest import Arm, Manifest
from app.domain.vocabulary import Method
from app.settings import Settings
from worker.accelerators import is_gpu, offered
from worker.cores import split_cores
from worker.matrix.cases import BASELINES, SERVING
from worker.matrix.cases import CASES as ROWS
from worker.matrix.cases import Case as MatrixRow
from worker.matrix.conduct import Matrix, launch
from worker.pins import Pins, resolve_pins

ROW_OF_METHOD = {
    "ngram": "ngram",
    "suffix": "suffix",
    "draft_model": "draft_model",
    "eagle": "eagle",
    "medusa": "medusa",
    "mtp": "mtp, target with a module",
}
"""The row of the method matrix that stands for each method."""
TARGET_ONLY = "target-only"
METHODS = (TARGET_ONLY, *ROW_OF_METHOD)
DRAFT_WINDOW = 256
"""Half the context of the small models: a draft with a limit of its own stops there."""
SHORT_SIGHTED = (Method.DRAFT_MODEL, Method.EAGLE)
CACHE_FLAGS = ("--block-size", "128", "--num-gpu-blocks-override", "14")
"""Room for three requests of full length, so that eight are enough to preempt some."""

Launch = Callable[[Path], LaunchSpec]


@dataclass(frozen=True, slots=True)
class Subject:
    """A server to be started. ``reference`` is the name of the one it is compared with; ``None``: it is one itself."""

    name: str
    k: int
    reference: str | None
    launch: Launch
    target: Path
    dtype: str
    reproduce: str
    """The command that checks it, to which a case is added."""
    unavailable: str = ""
    """Why it cannot be started here at all."""

    @property
    def is_reference(self) -> bool:
        """Whether others are compared with it."""
        return self.reference is None


def subjects_of(matrix: Matrix, methods: Sequence[str]) -> list[Subject]:
    """The methods with the target-only servers that they need before them. Raises ``DomainError`` for a strange one."""
    strange = [name for name in methods if name not in METHODS]
    if strange:
        raise DomainError.of("method", f"there is no method {', '.join(strange)}", f"one of: {', '.join(METHODS)}")
    wanted = [_of_row(matrix, name, row_named(ROW_OF_METHOD[name])) for name in METHODS[1:] if name in methods]
    references = dict.fromkeys(subject.reference for subject in wanted if subject.reference is not None)
    if TARGET_ONLY in methods:
        references = {TARGET_ONLY: None} | references
    ordered: list[Subject] = []
    for reference in references:
        ordered.append(_baseline(matrix, reference))
        ordered += [subject for subject in wanted if subject.reference == reference]
    return ordered


def row_named(name: str) -> MatrixRow:
    """The row of the method matrix."""
    return next(row for row in ROWS if row.name == name)


def variant(matrix: Matrix, subject: Subject, row_name: str) -> Subject:
    """The same subject with another row's launch, for a case that asks for one."""
    row = row_named(row_name)
    return replace(subject, launch=_launch_of(matrix, row), k=row.speculation["num_speculative_tokens"])


def _of_row(matrix: Matrix, name: str, row: MatrixRow) -> Subject:
    short = {"max_model_len": DRAFT_WINDOW} if row.method in SHORT_SIGHTED else {}
    own = replace(row, speculation={**row.speculation, **short})
    missing = ""
    if row.method == Method.SUFFIX and not matrix.runtime.has_suffix_decoding:
        missing = "the runtime lacks arctic-inference; check the recipe cpu-suffix"
    elif row.method not in matrix.capability.methods:
        missing = f"vLLM {matrix.runtime.version} does not list it"
    return Subject(
        name=name,
        k=row.speculation["num_speculative_tokens"],
        reference=_reference_name(row.target),
        launch=_launch_of(matrix, own),
        target=matrix.settings.model_root / row.target,
        dtype=SERVING["dtype"],
        reproduce=f"verdraft check {matrix.runtime.name} --method {name}",
        unavailable=missing,
    )


def _baseline(matrix: Matrix, name: str) -> Subject:
    row = next(b for b in BASELINES if _reference_name(b.target) == name)
    return Subject(
        name=name,
        k=4,
        reference=None,
        launch=_launch_of(matrix, row),
        target=matrix.settings.model_root / row.target,
        dtype=SERVING["dtype"],
        reproduce=f"verdraft check {matrix.runtime.name} --method {TARGET_ONLY if name == TARGET_ONLY else 'mtp'}",
    )


def _reference_name(target: str) -> str:
    """Target-only, and on which target if not on the bundled one."""
    return TARGET_ONLY if target == BASELINES[0].target else f"{TARGET_ONLY}, {target}"


def _launch_of(matrix: Matrix, row: MatrixRow) -> Launch:
    return lambda scratch: _with_cache(launch(matrix, row, scratch)[0])


def _with_cache(spec: LaunchSpec) -> LaunchSpec:
    """With a prefix cache, which every request gets a salt of its own for, and a small cache behind it."""
    on = {"--no-enable-prefix-caching": "--enable-prefix-caching"}
    return replace(spec, argv=(*(on.get(word, word) for word in spec.argv), *CACHE_FLAGS))


async def subjects_of_manifest(
    settings: Settings, runtime: str, manifest: Manifest, arm: str, written: Path
) -> list[Subject]:
    """The manifest's baseline and one arm, launched as an experiment would.

    Raises ``DomainError`` where the arm is not in it or this host cannot honour its pins.
    """
    chosen = next((one for one in manifest.arms if one.name == arm), None)
    if chosen is None:
        names = ", ".join(one.name for one in manifest.arms)
        raise DomainError.of("arm", f"the manifest has no arm {arm!r}", f"one of: {names}")
    pins = await asyncio.to_thread(resolve_pins, manifest, settings)
    if pins.runtime.name != runtime:
        message = f"the manifest is for {pins.runtime.name} ({manifest.runtime}), not for {runtime}"
        raise DomainError.of("runtime", message, f"verdraft check {pins.runtime.name} …")
    told = f"verdraft check {runtime} --manifest {written} --arm"
    arms = [manifest.baseline] if chosen == manifest.baseline else [manifest.baseline, chosen]
    return [_of_arm(settings, pins, manifest, one, f"{told} {one.name}") for one in arms]


def _of_arm(settings: Settings, pins: Pins, manifest: Manifest, arm: Arm, reproduce: str) -> Subject:
    return Subject(
        name=arm.name,
        k=arm.speculation.num_speculative_tokens or 4,
        reference=None if arm == manifest.baseline else manifest.baseline.name,
        launch=lambda scratch: _arm_launch(settings, pins, manifest, arm, scratch),
        target=pins.model_paths[manifest.target_model],
        dtype=manifest.serving.dtype,
        reproduce=reproduce,
    )


def _arm_launch(settings: Settings, pins: Pins, manifest: Manifest, arm: Arm, scratch: Path) -> LaunchSpec:
    draft, cores = pins.model_paths.get(arm.draft_or_speculator), split_cores()
    gpus = [name for name in offered(settings).names if is_gpu(name)]
    return launch_spec(
        manifest,
        arm,
        executable=str(pins.executable),
        target_path=str(pins.model_paths[manifest.target_model]),
        tokenizer_path=str(pins.model_paths[manifest.target_tokenizer]),
        draft_path=None if draft is None else str(draft),
        socket_path=str(scratch / "s"),
        cache_root=str(scratch / "cache"),
        engine_cores=",".join(map(str, cores.engine)),
        tree_cores=cores.engine_tree,
        devices=gpus[: manifest.accelerators_needed],
        serve_flags=None if pins.runtime.unavailable else pins.runtime.serve_flags,
    )
