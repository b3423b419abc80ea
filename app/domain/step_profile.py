"""A profiler's trace of one engine → how long its target and its draft took, per step.

The engine names its scopes and annotates each step with the requests in it; both are taken as they stand. A scope's
time is its span. On a GPU the host only launches work, so that the spans of the device are taken where there are any.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from app.domain.errors import EvidenceRefused
from app.domain.statistics import quantile

US_PER_MS = 1_000
PREFIX: Final = "gpu_model_runner: "
"""The engine's own, on processors too: its CPU runner is derived from the one for GPUs."""
TARGET_SCOPES: Final = ("preprocess", "forward", "postprocess", "sample", "bookkeep")
"""A step of the target, in the engine's order; the logits are computed in ``postprocess``."""
FORWARD, DRAFT = "forward", "draft"
SCOPES: Final = (*TARGET_SCOPES, DRAFT)
SWITCH = "VLLM_CUSTOM_SCOPES_FOR_PROFILING"
_STEP = re.compile(r"execute_(?:\d+_)?context_(\d+)\((?:sq)?(\d+)[^)]*\)_generation_(\d+)\((?:sq)?(\d+)")


class Clock(StrEnum):
    """Whose time a span is."""

    DEVICE = "device"
    HOST = "host"


class StepKind(StrEnum):
    """What was in a step."""

    DECODE = "decode"
    PREFILL = "prefill"
    """At least one request with a prompt still to be read."""
    UNKNOWN = "unknown"
    """The engine annotated no step."""


_CLOCKS = {"gpu_user_annotation": Clock.DEVICE, "user_annotation": Clock.HOST}


@dataclass(frozen=True, slots=True)
class Span:
    """One occurrence of a scope or of a step's annotation."""

    name: str
    start_us: float
    duration_us: float
    clock: Clock
    track: str
    """Its thread, or its stream: one scope has a span on each stream that it works on."""


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ScopeTime(_Frozen):
    """One scope over all steps of a kind."""

    scope: str
    n: int
    mean_ms: float
    median_ms: float
    p95_ms: float
    total_ms: float


class StepTimes(_Frozen):
    """All steps of one kind."""

    kind: StepKind
    steps: int
    requests_per_step: float | None
    """The mean batch, by the engine's annotations; ``None`` where it made none."""
    tokens_per_step: float | None
    """Scheduled tokens, drafted ones to be verified included."""
    scopes: tuple[ScopeTime, ...]
    target_ms: float | None
    """Mean of a step: the totals of ``TARGET_SCOPES`` over the steps; ``None`` without a ``forward``."""
    draft_ms: float | None
    """Mean of a step: the total of ``draft`` over the steps, all passes of the proposer together."""
    whole_steps: int
    whole_ms: float | None
    """Mean from the start of a step to that of the next, where both only decode; so no idle time is in it."""

    @property
    def rest_ms(self) -> float | None:
        """What of the whole is neither target nor draft: scheduling, messages between processes, gaps."""
        if self.whole_ms is None or self.target_ms is None:
            return None
        return self.whole_ms - self.target_ms - (self.draft_ms or 0.0)


class StepProfile(_Frozen):
    """What one trace tells."""

    clock: Clock
    steps: tuple[StepTimes, ...]
    not_observable: dict[str, str] = {}
    """What this version or method does not show → why."""

    def of(self, kind: StepKind) -> StepTimes | None:
        """The steps of that kind, if there were any."""
        return next((times for times in self.steps if times.kind is kind), None)

    @property
    def decoding(self) -> StepTimes | None:
        """The steps that a decision is about: those that only decode, or all where the engine tells none apart."""
        return self.of(StepKind.DECODE) or self.of(StepKind.UNKNOWN)


@dataclass(slots=True)
class _Step:
    kind: StepKind
    start_us: float
    requests: int = 0
    tokens: int = 0
    scopes: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])


def span_of(event: Mapping[str, Any]) -> Span | None:
    """The span of a Chrome trace's event; ``None`` for all but our scopes and annotations of steps.

    Raises ``EvidenceRefused`` where one of those has no start or no duration.
    """
    clock, name = _CLOCKS.get(event.get("cat", "")), event.get("name", "")
    if clock is None or not (name.removeprefix(PREFIX) in SCOPES or _STEP.match(name)):
        return None
    start, duration = event.get("ts"), event.get("dur")
    if not isinstance(start, int | float) or not isinstance(duration, int | float) or duration < 0:
        message = f"{name} starts at {start} and lasts {duration}"
        raise EvidenceRefused.of("traceEvents", message, "profile again; the engine's profiler wrote this")
    track = f"{event.get('pid')}/{event.get('tid')}"
    return Span(name.removeprefix(PREFIX), float(start), float(duration), clock, track)


def step_profile(spans: Iterable[Span], *, drafts: bool) -> StepProfile:
    """The profile of one engine's spans, in any order; ``drafts``: whether its arm has a proposer."""
    known = list(spans)
    clock = Clock.DEVICE if any(s.clock is Clock.DEVICE and s.name in SCOPES for s in known) else Clock.HOST
    ours = _main_track([span for span in known if span.clock is clock])
    steps = [step for step in _steps(ours) if step.requests or step.kind is StepKind.UNKNOWN]
    kinds = [kind for kind in StepKind if any(step.kind is kind for step in steps)]
    seen = Counter(span.name for span in known)
    return StepProfile(
        clock=clock,
        steps=tuple(_times(kind, steps) for kind in kinds),
        not_observable=dict(_not_observable(seen, {s.name for s in ours}, clock, drafts=drafts)),
    )


def _main_track(spans: Sequence[Span]) -> list[Span]:
    """The spans of the stream that has most of the forward; those of others are under way at the same time."""
    busy: Counter[str] = Counter()
    for span in spans:
        busy[span.track] += round(span.duration_us) if span.name == FORWARD else 0
    return [span for span in spans if span.track == max(busy, key=lambda track: busy[track])]


def _steps(spans: Sequence[Span]) -> list[_Step]:
    """Each step with its scopes; those from before the first annotation belong to a step that was cut off."""
    annotated = any(_STEP.match(span.name) for span in spans)
    steps: list[_Step] = []
    # A step and its first scope may begin at the same instant on a device.
    for span in sorted(spans, key=lambda span: (span.start_us, span.name in SCOPES)):
        if told := _STEP.match(span.name):
            steps.append(_annotated(span, *map(int, told.groups())))
        elif not annotated and span.name == TARGET_SCOPES[0]:
            steps.append(_Step(StepKind.UNKNOWN, span.start_us))
        if span.name in SCOPES and steps:
            steps[-1].scopes.append((span.name, span.duration_us))
    return steps


def _annotated(span: Span, prompts: int, prompt_tokens: int, decoding: int, tokens: int) -> _Step:
    kind = StepKind.PREFILL if prompts else StepKind.DECODE
    return _Step(kind, span.start_us, prompts + decoding, prompt_tokens + tokens)


def _times(kind: StepKind, steps: Sequence[_Step]) -> StepTimes:
    ours = [step for step in steps if step.kind is kind]
    scopes = {name: [us for step in ours for scope, us in step.scopes if scope == name] for name in SCOPES}
    gaps = [b.start_us - a.start_us for a, b in pairwise(steps) if a.kind is b.kind is kind is StepKind.DECODE]
    is_told = kind is not StepKind.UNKNOWN
    return StepTimes(
        kind=kind,
        steps=len(ours),
        requests_per_step=sum(step.requests for step in ours) / len(ours) if is_told else None,
        tokens_per_step=sum(step.tokens for step in ours) / len(ours) if is_told else None,
        scopes=tuple(_scope_time(name, found) for name, found in scopes.items() if found),
        target_ms=_per_step(scopes, TARGET_SCOPES, len(ours)) if scopes[FORWARD] else None,
        draft_ms=_per_step(scopes, (DRAFT,), len(ours)) if scopes[DRAFT] else None,
        whole_steps=len(gaps),
        whole_ms=sum(gaps) / len(gaps) / US_PER_MS if gaps else None,
    )


def _per_step(scopes: Mapping[str, Sequence[float]], names: Iterable[str], steps: int) -> float:
    return sum(sum(scopes[name]) for name in names) / steps / US_PER_MS


def _scope_time(scope: str, durations_us: Sequence[float]) -> ScopeTime:
    total, n = sum(durations_us) / US_PER_MS, len(durations_us)
    median, p95 = (quantile(durations_us, q) or 0.0 for q in (0.5, 0.95))
    return ScopeTime(
        scope=scope, n=n, mean_ms=total / n, median_ms=median / US_PER_MS, p95_ms=p95 / US_PER_MS, total_ms=total
    )


def _not_observable(
    seen: Mapping[str, int], shown: set[str], clock: Clock, *, drafts: bool
) -> Iterator[tuple[str, str]]:
    if not any(name in SCOPES for name in seen):
        yield (
            "scopes",
            f"the trace has none of the engine's scopes: this version has none, or {SWITCH} did not reach it",
        )
        return
    if not any(_STEP.match(name) for name in shown):
        yield "batch", "the engine annotated no step: prompts and decoding are not told apart"
    for scope in SCOPES:
        if scope in shown:
            continue
        if scope == DRAFT and not drafts:
            yield scope, "this arm has no proposer"
        elif scope in seen:
            yield scope, f"it has no span on the {clock}'s clock where the forward is: left out"
        elif scope == DRAFT:
            yield scope, "this version drafts outside its scopes with this method, or it never drafted"
        else:
            yield scope, "the trace has no such scope: this version has none"
