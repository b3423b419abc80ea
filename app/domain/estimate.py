"""What an experiment will cost and what its blocks can show, before anything is run (spec M4).

Times come from sessions that this host has measured, or else from a stated model; which of them is said.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Annotated, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from app.domain.comparison import family_size
from app.domain.errors import FieldProblem
from app.domain.looks import final_confidence
from app.domain.manifest import Manifest
from app.domain.paired import bonferroni
from app.domain.power import blocks_needed, detectable_in_sds
from app.domain.trace import TraceHeader
from app.domain.vocabulary import NS_PER_S

HOURS_MAX: Final = 336
REQUESTS_MAX: Final = 5_000_000
SECONDS_PER_MINUTE: Final = 60


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PastTimes(_Frozen):
    """What sessions took: start-up, what is spent once in each session beside it, and beside each replay."""

    startup_s: Annotated[float, Field(ge=0)]
    session_overhead_s: Annotated[float, Field(ge=0)]
    """Canary, warm-up, stop."""
    run_overhead_s: Annotated[float, Field(ge=0)]
    """Quiescing, draining and recording around one replay."""
    source: str
    """Where these come from, in words for people."""
    log_ratio_sd: Annotated[float, Field(ge=0)] | None = None
    """Standard deviation of block log-ratios in past experiments of this host."""


CPU_MODEL: Final = PastTimes(
    startup_s=53,
    session_overhead_s=17,
    run_overhead_s=5,
    source="a model: medians of the 15 sessions of one demo, vLLM 0.32.0 on two CPU cores",
)
GPU_MODEL: Final = PastTimes(
    startup_s=115,
    session_overhead_s=17,
    run_overhead_s=5,
    source="a model: start-ups of 94 to 136 s, vLLM 0.26.0 on one H200; the rest as on a CPU",
)
CPU_SD: Final = 0.13
"""The median of eight comparisons (0.09 to 0.20) of the same demo; a shared or busy host has more."""
GPU_SD: Final = 0.02
"""What a quiet accelerator with fixed clocks may have; nobody has measured it here."""


class SessionTimes(NamedTuple):
    """One session that ended well: seconds to start, in all, and replaying; and how many runs it had."""

    startup_s: float
    wall_s: float
    replay_s: float
    runs: int


class CostEstimate(_Frozen):
    """An estimate, never a promise. Effects are relative: 0.034 is a change of 3.4%."""

    conditions: int
    sessions: int
    runs: int
    requests: int
    """Measured requests of all arms and blocks; the warm-up is not counted."""
    startup_s: float
    replay_s: float
    overhead_s: float
    wall_minutes: float
    """One block after the other, on one worker."""
    accelerators: int
    """Held by one server."""
    accelerator_minutes: float
    times_from: str
    delta: float
    """The margin that the manifest declares."""
    sd: float
    """Of the logarithms of block ratios; the effects and blocks below follow from it."""
    sd_from: str
    minimum_detectable_effect: float | None
    """Found with 80% power by one comparison with these blocks (method A4); ``None`` for one block."""
    minimum_detectable_effect_in_family: float | None
    """The same when the whole declared family is to hold together, as a verdict asks."""
    blocks_for_delta: int | None
    """Blocks with which an effect of ``delta`` is found in the declared family; ``None`` above a thousand."""
    notes: tuple[str, ...] = ()


def estimate(manifest: Manifest, headers: Mapping[str, TraceHeader], past: PastTimes | None = None) -> CostEstimate:
    """The cost of ``manifest``; ``headers`` maps each workload's name to its trace's header.

    A workload without a header is left out and named in ``notes``.
    """
    times = past or (CPU_MODEL if _on_cpu(manifest) else GPU_MODEL)
    sd, sd_from = _deviation(manifest, times)
    confidence = final_confidence(manifest)
    together = bonferroni(confidence, family_size(manifest))
    sessions = len(manifest.arms) * manifest.blocks
    replays = [
        replay for w in manifest.workloads if w.name in headers for replay in _replays(manifest, headers[w.name])
    ]
    runs = sessions * len(manifest.workloads) * len(manifest.loads)
    startup_s, replay_s = sessions * times.startup_s, sessions * sum(replay.seconds for replay in replays)
    overhead_s = sessions * times.session_overhead_s + runs * times.run_overhead_s
    minutes = (startup_s + replay_s + overhead_s) / SECONDS_PER_MINUTE
    return CostEstimate(
        conditions=runs // manifest.blocks,
        sessions=sessions,
        runs=runs,
        requests=sessions * sum(replay.requests for replay in replays),
        startup_s=startup_s,
        replay_s=replay_s,
        overhead_s=overhead_s,
        wall_minutes=minutes,
        accelerators=manifest.serving.tensor_parallel_size,
        accelerator_minutes=minutes * manifest.serving.tensor_parallel_size,
        times_from=times.source,
        delta=manifest.margins.delta,
        sd=sd,
        sd_from=sd_from,
        minimum_detectable_effect=_detectable(manifest.blocks, sd, confidence),
        minimum_detectable_effect_in_family=_detectable(manifest.blocks, sd, together),
        blocks_for_delta=blocks_needed(sd, math.log1p(manifest.margins.delta), together),
        notes=tuple(_notes(manifest, headers)),
    )


def measured_times(sessions: Sequence[SessionTimes], log_ratio_sd: float | None = None) -> PastTimes | None:
    """Medians of past sessions; ``None`` of nothing. What no replay and no start-up explains is the session's own."""
    if not sessions:
        return None
    per_run = CPU_MODEL.run_overhead_s
    rest = [s.wall_s - s.startup_s - s.replay_s - s.runs * per_run for s in sessions]
    return PastTimes(
        startup_s=median(s.startup_s for s in sessions),
        session_overhead_s=max(0.0, median(rest)),
        run_overhead_s=per_run,
        source=f"the medians of {len(sessions)} sessions that were measured here",
        log_ratio_sd=log_ratio_sd,
    )


def absurdities(cost: CostEstimate) -> Iterator[FieldProblem]:
    """Why an experiment of this size is refused."""
    remedy = "take fewer blocks, arms, workloads or loads, or shorter traces"
    hours = cost.wall_minutes / SECONDS_PER_MINUTE
    if hours > HOURS_MAX:
        yield FieldProblem("blocks", f"about {hours:.0f} hours on one worker; at most {HOURS_MAX} are taken", remedy)
    if cost.requests > REQUESTS_MAX:
        message = f"{cost.requests} requests in all; at most {REQUESTS_MAX} are taken"
        yield FieldProblem("blocks", message, remedy)


class _Replay(NamedTuple):
    seconds: float
    requests: int


def _replays(manifest: Manifest, header: TraceHeader) -> Iterator[_Replay]:
    """Each of the manifest's loads in one trace. A closed loop is taken to answer just within the objective."""
    for point in manifest.loads:
        load = header.load(point.name)
        if load is None:
            continue
        within_slo_s = load.requests / (load.clients or 1) * manifest.slo.e2e_ms / 1000
        yield _Replay(load.duration_ns / NS_PER_S if load.duration_ns else within_slo_s, load.requests)


def _on_cpu(manifest: Manifest) -> bool:
    return manifest.software.cuda == "none"


def _deviation(manifest: Manifest, times: PastTimes) -> tuple[float, str]:
    """The standard deviation of block log-ratios to plan with, and where it comes from."""
    if times.log_ratio_sd is not None:
        return times.log_ratio_sd, "past experiments of this host"
    return assumed_noise(manifest)


def assumed_noise(manifest: Manifest) -> tuple[float, str]:
    """The deviation of block log-ratios that a kind of host has, and that nobody measured it on this one."""
    return (CPU_SD if _on_cpu(manifest) else GPU_SD), "an assumption, since no past experiment of this host tells it"


def _detectable(blocks: int, sd: float, confidence: float) -> float | None:
    return None if blocks <= 1 else math.expm1(sd * detectable_in_sds(blocks, confidence))


def _notes(manifest: Manifest, headers: Mapping[str, TraceHeader]) -> Iterator[str]:
    for workload in manifest.workloads:
        header = headers.get(workload.name)
        if header is None:
            yield f"the trace of {workload.name} is not known here, so its replays are left out"
        elif any((load := header.load(p.name)) and not load.duration_ns for p in manifest.loads):
            yield f"closed loops of {workload.name} are taken to answer just within slo.e2e_ms"
