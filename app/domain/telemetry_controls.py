"""What telemetry says against a run: held-down clocks, strangers, a set clock, a busy or stolen host (method A12).

Of several GPUs the worst one is stated. A quantity that was not sampled is ``NOT_CHECKABLE``, with its reason.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from app.domain.control import ControlOutcome, Finding
from app.domain.series import (
    CLOCK_OFFSET,
    FOREIGN_CPU,
    FOREIGN_PROCESSES,
    STOLEN_CPU,
    TEMPERATURE,
    THROTTLE_REASONS,
    Series,
    having,
)
from app.domain.vocabulary import NS_PER_MS, NS_PER_S

SW_POWER_CAP = 0x4
"""Clocks follow the power limit: what most GPUs do at full load."""
SLOWDOWNS = {
    0x8: "hardware slowdown",
    0x20: "thermal slowdown by software",
    0x40: "thermal slowdown by hardware",
    0x80: "power brake",
}
"""Bits of NVML's clocksEventReasons under which a run says more about its cooling or power than about its arm."""
SLOWED_SHARE_MAX = 0.01
CLOCK_JUMP_MAX_MS = 100.0
FOREIGN_CPU_MAX = 0.10
STOLEN_CPU_MAX = 0.01
GAP_MAX_S = 5.0

PASS, WARN, FAIL, NOT_CHECKABLE = (
    ControlOutcome.PASS,
    ControlOutcome.WARN,
    ControlOutcome.FAIL,
    ControlOutcome.NOT_CHECKABLE,
)

Reasons = Mapping[str, str]
"""Quantity → why it was missing, as the sampler says."""


def telemetry_findings(series: Sequence[Series], unobservable: Reasons | None = None) -> list[Finding]:
    """Every control of a run that rests on telemetry; ``series`` are the run's."""
    reasons = unobservable or {}
    return [
        coverage(series, reasons),
        throttling(series, reasons),
        power_cap(series, reasons),
        foreign_processes(series, reasons),
        temperature_rise(series, reasons),
        clock_jump(series, reasons),
        foreign_cpu(series, reasons),
        stolen_cpu(series, reasons),
    ]


def coverage(series: Sequence[Series], reasons: Reasons) -> Finding:
    """The longest time without a sample of the host, and what was missing for a part of the run."""
    gap_ns, _ = _worst(series, CLOCK_OFFSET, _longest_gap_ns, at_least=2)
    if gap_ns is None:
        return _missing("telemetry", CLOCK_OFFSET, "s", reasons)
    gap_s = gap_ns / NS_PER_S
    words = [f"nothing was sampled for {gap_s:.1f} s"] if gap_s > GAP_MAX_S else []
    partly: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        if any(having(series, name)):
            partly.setdefault(reason, []).append(name)
    words += [f"{', '.join(names)} only in part: {reason}" for reason, names in partly.items()]
    return Finding("telemetry", WARN if words else PASS, gap_s, GAP_MAX_S, "s", "; ".join(words))


def throttling(series: Sequence[Series], reasons: Reasons) -> Finding:
    """Share of samples in which the clocks were held down for heat or for lack of power."""
    mask = sum(SLOWDOWNS)
    share, worst = _worst(series, THROTTLE_REASONS, lambda sampled: _share_with(sampled, mask))
    if share is None or worst is None:
        return _missing("throttling", THROTTLE_REASONS, "share", reasons)
    seen = ", ".join(words for bit, words in SLOWDOWNS.items() if _share_with(worst, bit))
    words = f"clocks of {_device(worst)} were held down in {share:.1%} of {len(worst.values)} samples: {seen}"
    return _bounded("throttling", share, SLOWED_SHARE_MAX, "share", words, worst=FAIL)


def power_cap(series: Sequence[Series], reasons: Reasons) -> Finding:
    """Share of samples at the power limit; stated for each arm, and no fault."""
    share, _ = _worst(series, THROTTLE_REASONS, lambda sampled: _share_with(sampled, SW_POWER_CAP))
    if share is None:
        return _missing("power cap", THROTTLE_REASONS, "share", reasons)
    return Finding("power cap", PASS, share, None, "share", "")


def foreign_processes(series: Sequence[Series], reasons: Reasons) -> Finding:
    """The most processes that were on a GPU at once and not the engine's."""
    most, worst = _worst(series, FOREIGN_PROCESSES, lambda sampled: max(sampled.values))
    if most is None or worst is None:
        return _missing("foreign GPU processes", FOREIGN_PROCESSES, "processes", reasons)
    words = f"up to {most:.0f} processes that are not the engine's were on {_device(worst)}"
    return _bounded("foreign GPU processes", most, 0, "processes", words, worst=FAIL)


def temperature_rise(series: Sequence[Series], reasons: Reasons) -> Finding:
    """The highest temperature less the first; stated, and no fault by itself."""
    rise, _ = _worst(series, TEMPERATURE, lambda sampled: max(sampled.values) - sampled.values[0])
    if rise is None:
        return _missing("temperature rise", TEMPERATURE, "°C", reasons)
    return Finding("temperature rise", PASS, rise, None, "°C", "")


def clock_jump(series: Sequence[Series], reasons: Reasons) -> Finding:
    """How far the wall clock moved against the monotonic one; latencies do not use it, logs and other hosts do."""
    moved_ns, _ = _worst(series, CLOCK_OFFSET, lambda sampled: max(sampled.values) - min(sampled.values), at_least=2)
    if moved_ns is None:
        return _missing("clock jump", CLOCK_OFFSET, "ms", reasons)
    moved_ms = moved_ns / NS_PER_MS
    words = f"the wall clock moved by {moved_ms:.0f} ms against the monotonic clock"
    return _bounded("clock jump", moved_ms, CLOCK_JUMP_MAX_MS, "ms", words)


def foreign_cpu(series: Sequence[Series], reasons: Reasons) -> Finding:
    """Processor seconds of strangers for each second, 1 being one core."""
    share, _ = _worst(series, FOREIGN_CPU, _per_second, at_least=2)
    if share is None:
        return _missing("foreign CPU", FOREIGN_CPU, "cores", reasons)
    words = f"other programs took {share:.2f} cores of this host on average"
    return _bounded("foreign CPU", share, FOREIGN_CPU_MAX, "cores", words)


def stolen_cpu(series: Sequence[Series], reasons: Reasons) -> Finding:
    """Processor seconds that the hypervisor took for each second, 1 being one core."""
    share, _ = _worst(series, STOLEN_CPU, _per_second, at_least=2)
    if share is None:
        return _missing("stolen CPU", STOLEN_CPU, "cores", reasons)
    words = f"the hypervisor took {share:.3f} cores from this host on average"
    return _bounded("stolen CPU", share, STOLEN_CPU_MAX, "cores", words)


def _worst(
    series: Sequence[Series], name: str, figure: Callable[[Series], float], *, at_least: int = 1
) -> tuple[float | None, Series | None]:
    """The largest figure of those with that many samples, and whose it is."""
    found: Iterator[tuple[float, Series]] = (
        (figure(sampled), sampled) for sampled in having(series, name) if len(sampled.values) >= at_least
    )
    return max(found, key=lambda pair: pair[0], default=(None, None))


def _longest_gap_ns(sampled: Series) -> float:
    return max(later - earlier for earlier, later in pairwise(sampled.at_ns))


def _share_with(sampled: Series, mask: int) -> float:
    return sum(bool(int(value) & mask) for value in sampled.values) / len(sampled.values)


def _per_second(sampled: Series) -> float:
    span_s = (sampled.at_ns[-1] - sampled.at_ns[0]) / NS_PER_S
    return (sampled.values[-1] - sampled.values[0]) / span_s if span_s else 0.0


def _device(sampled: Series) -> str:
    return sampled.labels.get("device", "a GPU")


def _bounded(
    name: str, figure: float, threshold: float, unit: str, words: str, *, worst: ControlOutcome = WARN
) -> Finding:
    over = figure > threshold
    return Finding(name, worst if over else PASS, figure, threshold, unit, words if over else "")


def _missing(name: str, quantity: str, unit: str, reasons: Reasons) -> Finding:
    why = reasons.get(quantity, "it was not sampled often enough")
    return Finding(name, NOT_CHECKABLE, None, None, unit, why)
