"""The manifest: the frozen statement of an experiment. Its digest is its identity.

What cannot be pinned is refused, not guessed; unknown keys are refused by name. In the canonical form
a null is left out, so that absent and null are the same manifest and a later optional field changes no digest.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from app.domain.arm import Arm, Provenance
from app.domain.canonical import canonical_json, digest
from app.domain.engine_arguments import refusal_of
from app.domain.errors import ManifestRefused
from app.domain.grid import ARMS_MAX
from app.domain.judging import ALL_ARMS, Family, Margins, Slo
from app.domain.layout import read_layout
from app.domain.load import LoadPoint, WorkloadRef
from app.domain.references import MODEL_PATTERN, RUNTIME_PATTERN, ModelRef, RuntimeRef
from app.domain.refusals import Flaw, field_problems, refuse
from app.domain.serving import Files, Hardware, Sampling, Serving, Software
from app.domain.vocabulary import BASELINE_ARM, Method, Name, Purpose
from app.domain.written import Text

__all__ = [
    "FORMAT",
    "MODEL_PATTERN",
    "RUNTIME_PATTERN",
    "Arm",
    "Family",
    "Files",
    "Hardware",
    "LoadPoint",
    "Manifest",
    "Margins",
    "ModelRef",
    "Provenance",
    "RuntimeRef",
    "Sampling",
    "Serving",
    "Slo",
    "Software",
    "Text",
    "WorkloadRef",
    "field_problems",
    "parse_manifest",
]

FORMAT: Final = "verdraft/manifest/v0"
RUNS_MAX: Final = 20_000
LOOK_MIN: Final = 5
"""Blocks below which nothing is decided."""
LOOKS_MAX: Final = 4


Looks = Annotated[tuple[Annotated[int, Field(ge=LOOK_MIN)], ...], Field(min_length=1, max_length=LOOKS_MAX)]


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Manifest(_Frozen):
    """Everything that decides what is measured. See ``docs/manifest.md``."""

    format: Literal["verdraft/manifest/v0"] = FORMAT
    name: Name
    purpose: Purpose = Purpose.VERDICT
    target_model: ModelRef
    target_tokenizer: ModelRef
    files: Files | None = None
    runtime: RuntimeRef
    engine_below_floor: Text | None = None
    """Why an engine older than the security floor is accepted; shown in the report."""
    serving: Serving
    sampling: Sampling
    hardware: Hardware
    software: Software
    arms: Annotated[tuple[Arm, ...], Field(min_length=1, max_length=ARMS_MAX)]
    workloads: Annotated[tuple[WorkloadRef, ...], Field(min_length=1, max_length=32)]
    loads: Annotated[tuple[LoadPoint, ...], Field(min_length=1, max_length=32)]
    blocks: Annotated[int, Field(ge=1, le=100)]
    looks: (
        Annotated[tuple[Annotated[int, Field(ge=LOOK_MIN)], ...], Field(min_length=1, max_length=LOOKS_MAX)] | None
    ) = None
    """Blocks after which it may stop before the end; absent: it never does."""
    schedule_seed: Annotated[int, Field(ge=0, lt=2**63)]
    session_policy: Literal["per_arm"] = "per_arm"
    slo: Slo
    margins: Margins = Margins()
    family: Family = Family()

    @model_validator(mode="after")
    def _fields_fit_together(self) -> "Manifest":
        refuse(self, _flaws(self))
        return self

    @property
    def baseline(self) -> Arm:
        """The target-only arm."""
        return next(a for a in self.arms if a.name == BASELINE_ARM)

    @property
    def speculative(self) -> frozenset[str]:
        """The names of the arms that propose anything."""
        return frozenset(arm.name for arm in self.arms if arm.speculates)

    @property
    def accelerators_needed(self) -> int:
        """How many accelerators one of its engines takes; the processor is one, however it is shared."""
        return min(self.serving.tensor_parallel_size, self.hardware.count)

    @property
    def candidates(self) -> tuple[Arm, ...]:
        """Every arm but the baseline, in manifest order."""
        return tuple(a for a in self.arms if a.name != BASELINE_ARM)

    @property
    def decided(self) -> tuple[Arm, ...]:
        """The candidates of the declared family; the others are exploratory, and what is deployed is no candidate."""
        named = self.family.comparisons
        return tuple(a for a in self.candidates if not a.as_deployed and (named == ALL_ARMS or a.name in named))

    def canonical(self) -> bytes:
        """The canonical bytes whose sha256 is the manifest's identity: sorted keys, defaults written out, no nulls."""
        return canonical_json(self.model_dump(mode="json", exclude_none=True))

    @property
    def digest(self) -> str:
        """The content address, 64 hex digits."""
        return digest(self.canonical())


def parse_manifest(document: Any) -> Manifest:
    """Validate a decoded document, as frozen or as written by hand (``app.domain.layout``).

    Raises ``ManifestRefused`` with one problem per wrong field, in the document's own fields.
    """
    layout = read_layout(document)
    try:
        manifest = Manifest.model_validate(layout.document)
    except ValidationError as error:
        raise ManifestRefused(*layout.told(field_problems(error, refusal_of))) from error
    if layout.problems:
        raise ManifestRefused(*layout.problems)
    return manifest


def _flaws(manifest: Manifest) -> Iterator[Flaw]:
    """Every rule about several fields at once, each at the field to be changed."""
    yield from _names(manifest)
    yield from _baseline(manifest)
    yield from _lossy(manifest)
    yield from _family(manifest)
    yield from _looks(manifest)
    yield from _size(manifest)


def _names(manifest: Manifest) -> Iterator[Flaw]:
    for field, names in (
        ("arms", [a.name for a in manifest.arms]),
        ("workloads", [w.name for w in manifest.workloads]),
        ("loads", [p.name for p in manifest.loads]),
    ):
        for index in _repeated(names):
            yield Flaw((field, index, "name"), f"the name {names[index]} is used twice", "let names differ")


def _repeated(names: Sequence[str]) -> Iterator[int]:
    return (index for index, name in enumerate(names) if name in names[:index])


def _baseline(manifest: Manifest) -> Iterator[Flaw]:
    if manifest.purpose is Purpose.HOST_CALIBRATION:
        yield from _all_alike(manifest)
        return
    baselines = [a.name for a in manifest.arms if a.speculation.method is Method.TARGET_ONLY and not a.as_deployed]
    if baselines != [BASELINE_ARM]:
        message = f"exactly one arm must be target_only, and its name must be {BASELINE_ARM}"
        yield Flaw(("arms",), message, f"add {{name: {BASELINE_ARM}, speculation: {{method: target_only}}}} once")
    elif not manifest.speculative:
        yield Flaw(("arms",), "there is nothing to compare with target-only", "add at least one proposer")


def _all_alike(manifest: Manifest) -> Iterator[Flaw]:
    """Of an A/A experiment: target-only, and again."""
    for index, arm in enumerate(manifest.arms):
        if arm.speculates:
            message = f"a host is calibrated with target_only alone, and {arm.name} speculates"
            yield Flaw(("arms", index, "speculation", "method"), message, "remove the arm, or set purpose to verdict")
        if arm.as_deployed:
            message = "a host is calibrated with servers that are all alike"
            yield Flaw(("arms", index, "as_deployed"), message, "remove it, or set purpose to verdict")
    if BASELINE_ARM not in {arm.name for arm in manifest.arms} or not manifest.candidates:
        message = f"an A/A experiment has the arm {BASELINE_ARM} and at least one other"
        yield Flaw(("arms",), message, f"add {{name: {BASELINE_ARM}-again, speculation: {{method: target_only}}}}")


def _lossy(manifest: Manifest) -> Iterator[Flaw]:
    """A lossy acceptance may be measured for its cost, but never judged as if outputs stayed the same."""
    for index, arm in enumerate(manifest.arms):
        mode = arm.speculation.rejection_sampling
        if mode.lossy and manifest.purpose is not Purpose.OVERHEAD_PROFILING:
            message = f"{mode} is lossy: it lets tokens pass that the target would not have chosen"
            remedy = "use standard, or state purpose: overhead_profiling, which bars any claim about outputs"
            yield Flaw(("arms", index, "speculation", "rejection_sampling"), message, remedy)


def _looks(manifest: Manifest) -> Iterator[Flaw]:
    """In order, and before the end: the end is a look of its own."""
    looks = manifest.looks or ()
    for index, (before, look) in enumerate(zip((0, *looks), looks, strict=False)):
        if not before < look < manifest.blocks:
            message = f"a look after {look} blocks is not after the one before it and before the end, {manifest.blocks}"
            yield Flaw(("looks", index), message, f"let looks rise from {LOOK_MIN} and stay below blocks")


def _family(manifest: Manifest) -> Iterator[Flaw]:
    named, known = manifest.family.comparisons, [a.name for a in manifest.candidates if not a.as_deployed]
    if isinstance(named, str):
        return
    for index, name in enumerate(named):
        if name not in known:
            message = f"{name} is no arm that is compared with target-only; those are {', '.join(known)}"
            yield Flaw(("family", "comparisons", index), message, "name arms by the names that lists give them")
    for index in _repeated(named):
        yield Flaw(("family", "comparisons", index), f"{named[index]} is named twice", "name each arm once")


def _size(manifest: Manifest) -> Iterator[Flaw]:
    conditions = len(manifest.arms) * len(manifest.workloads) * len(manifest.loads)
    runs = conditions * manifest.blocks
    if runs > RUNS_MAX:
        message = f"{conditions} conditions in {manifest.blocks} blocks are {runs} runs; at most {RUNS_MAX} are taken"
        yield Flaw(("blocks",), message, "take fewer blocks, arms, workloads or loads, or split the experiment")
