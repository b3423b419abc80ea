"""Everything an experiment's analysis may read, as plain values. The gates live in ``gates``.

A report is a pure function of this and of the analysis version.
"""

from collections.abc import Iterable
from typing import Literal, TypedDict

from pydantic import BaseModel, ConfigDict

from app.domain.device import Device
from app.domain.engine_version import PER_REQUEST_SPECULATION_FLAG
from app.domain.lifecycle import RunState, SessionState
from app.domain.manifest import Manifest
from app.domain.memory import MemoryBreakdown
from app.domain.observation import RequestObservation
from app.domain.series import Series
from app.domain.startup import CanaryFacts, ConfigSource, StartupWarning
from app.domain.trace import Requests
from app.domain.trace_request import TraceRequest
from app.domain.verified import VerificationRecord
from app.domain.vocabulary import WARMUP, FailureClass, Sha256


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Failure(_Frozen):
    """Why a session or run ended early; ``message`` is one line, the log has the rest."""

    failure_class: FailureClass
    message: str


class CounterDeltas(_Frozen):
    """Differences of vLLM's counters over one run, between two quiesced scrapes, summed over ``engine``.

    ``None`` where the runtime does not expose the metric (the baseline has no speculative counters).
    """

    prompt_tokens: int
    generation_tokens: int
    request_success: int
    num_preemptions: int
    spec_decode_num_drafts: int | None = None
    spec_decode_num_draft_tokens: int | None = None
    spec_decode_num_accepted_tokens: int | None = None
    spec_decode_num_accepted_tokens_per_pos: tuple[int, ...] | None = None


class RunEvidence(_Frozen):
    """One run of one arm in one block."""

    block: int
    arm: str
    workload: str
    load: str
    attempt: int = 1
    """A void run is repeated in its session; only a succeeded attempt is compared."""
    state: RunState
    failure: Failure | None = None
    observations: tuple[RequestObservation, ...] = ()
    counters: CounterDeltas | None = None
    series: tuple[Series, ...] = ()
    """What was sampled while it ran: the engine's metrics, its devices and its host."""
    unobservable: dict[str, str] = {}
    """Sampled quantity → why it was missing at some time."""
    scorer: str | None = None
    """Name and version of what scored its answers; ``None`` where the manifest names none."""
    scores: dict[str, float] = {}
    """Request id → score of its answer, 0 to 1; only answers that are complete are scored."""


class SessionEvidence(_Frozen):
    """One fresh server: how it started and with which resolved configuration."""

    block: int
    arm: str
    position: int
    state: SessionState
    failure: Failure | None = None
    startup_ns: int | None = None
    """From exec to the answered canary."""
    argv: tuple[str, ...] = ()
    log_sha256: Sha256 | None = None
    resolved_config: dict[str, str] = {}
    """The engine's own statement of its configuration, flattened ``section.key`` → value."""
    memory: dict[str, str] = {}
    """Memory lines of the start-up log, name → value as printed."""
    memory_breakdown: MemoryBreakdown | None = None
    devices: tuple[Device, ...] = ()
    """The GPUs that it had, by their driver; empty without one."""
    warnings: tuple[StartupWarning, ...] = ()
    """Known warnings of the whole session's log, those of its measurement too."""
    canary: CanaryFacts | None = None
    """``None`` in a session that ended before it, or was recorded before this was looked at."""
    flags_left_out: dict[str, str] = {}
    """Flag that this runtime does not know → what is therefore not there."""
    config_source: ConfigSource | None = None
    accelerators: tuple[str, ...] = ()
    """``host/name`` of each accelerator it had; empty in sessions recorded before this was noted."""
    diagnosing: bool = False
    """It measured nothing: it answered again what arms had answered differently."""
    verification: VerificationRecord | None = None
    """What it was asked after its runs; ``None`` where it was asked nothing."""

    @property
    def counts_per_request(self) -> bool:
        """Whether its responses carry each request's own speculation counts, if it speculates."""
        return PER_REQUEST_SPECULATION_FLAG not in self.flags_left_out


class RequestLabels(_Frozen):
    """What the analysis needs of a trace's request."""

    request_id: str
    load: str
    strata: dict[str, str]
    reference: str | None = None
    planned_end: Literal["cancel", "deadline"] | None = None
    """The trace itself ends this request early; that is no failure of the engine."""
    max_tokens: int | None = None
    """Output tokens that were asked for at most; absent in evidence recorded before this was kept."""
    is_sampled: bool = False
    """The request itself asks for a temperature above 0, whatever the manifest says."""


class ExperimentEvidence(_Frozen):
    """The input of a report. ``labels`` maps workload name → its measured requests."""

    manifest: Manifest
    labels: dict[str, tuple[RequestLabels, ...]]
    content_valid: dict[str, bool]
    sessions: tuple[SessionEvidence, ...]
    runs: tuple[RunEvidence, ...]
    diagnoses: tuple[SessionEvidence, ...] = ()
    """Fresh servers that answered again, alone, what arms had answered differently; they measured nothing."""


class Sessions(TypedDict):
    """The servers of an experiment by what they were for, as ``ExperimentEvidence`` takes them."""

    sessions: tuple[SessionEvidence, ...]
    diagnoses: tuple[SessionEvidence, ...]


def split(sessions: Iterable[SessionEvidence]) -> Sessions:
    """Those that measured apart from those that only answered again, each in the given order."""
    found = tuple(sessions)
    return Sessions(
        sessions=tuple(s for s in found if not s.diagnosing), diagnoses=tuple(s for s in found if s.diagnosing)
    )


def labels_of(trace: Requests) -> tuple[RequestLabels, ...]:
    """The labels of a trace's measured requests; the warm-up is never analysed."""
    return tuple(label_of(request) for request in trace.requests if request.load != WARMUP)


def label_of(request: TraceRequest) -> RequestLabels:
    """What the analysis needs of one request."""
    return RequestLabels(
        request_id=request.request_id,
        load=request.load,
        strata=request.strata,
        reference=request.reference,
        planned_end=request.planned_end,
        max_tokens=request.max_tokens,
        is_sampled=request.sampling is not None and bool(request.sampling.temperature),
    )
