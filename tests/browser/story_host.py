"""What the host of a told experiment sampled: a GPU that is held down once, and memory row by row."""

import random
from collections.abc import Callable

from app.domain.condition import Condition
from app.domain.control import Control, ControlOutcome
from app.domain.exposition import ACCEPTED_TOKENS, DRAFT_TOKENS, KV_CACHE_USAGE, RUNNING, WAITING
from app.domain.memory import MemoryBreakdown, MemoryPart, MemoryRow
from app.domain.observation import RequestObservation
from app.domain.series import POWER, SM_CLOCK, TEMPERATURE, THROTTLE_REASONS, Series
from app.domain.vocabulary import NS_PER_S

GPU = "GPU-00000000-0000-0000-0000-000000000001"
THROTTLED = Control(
    name="throttling",
    block=0,
    arm="draft-k4",
    workload="tasks",
    load="high",
    outcome=ControlOutcome.WARN,
    figure=0.5,
    threshold=0.01,
    unit="share",
    words=f"clocks of {GPU} were held down",
)


def story_series(condition: Condition, seen: list[RequestObservation]) -> list[Series]:
    """What a GPU host would have sampled, once a second."""
    seconds = range(max(o.end_ns or 0 for o in seen) // NS_PER_S + 2)
    at_ns = tuple(second * NS_PER_S for second in seconds)
    luck = random.Random(condition.id)
    power = 600 if condition.load == "high" else 350

    def series(name: str, value: Callable[[int], float], **labels: str) -> Series:
        return Series(name=name, labels=labels, at_ns=at_ns, values=tuple(map(value, seconds)))

    return [
        series(RUNNING, lambda second: 3 + second % 2),
        series(WAITING, lambda _: 0),
        series(KV_CACHE_USAGE, lambda second: 0.1 + 0.01 * (second % 7)),
        series("vllm:inter_token_latency_seconds_sum", lambda second: 0.5 * second),
        series("vllm:inter_token_latency_seconds_count", lambda second: 50 * second),
        series(DRAFT_TOKENS, lambda second: 100 * second),
        series(ACCEPTED_TOKENS, lambda second: (60 if second < len(seconds) / 2 else 55) * second),
        series(POWER, lambda _: power + luck.gauss(0, 5), device=GPU),
        series(SM_CLOCK, lambda _: 1980, device=GPU),
        series(TEMPERATURE, lambda second: 45 + second, device=GPU),
        series(THROTTLE_REASONS, lambda _: 0x4, device=GPU),
    ]


def story_memory(arm: str) -> MemoryBreakdown:
    draft = 700_000_000 if arm == "draft-k4" else 0
    sizes = {
        MemoryPart.TARGET_WEIGHTS: 12_900_000_000,
        MemoryPart.DRAFT_WEIGHTS: draft,
        MemoryPart.KV_CACHE_TARGET: 54_000_000_000 - 2 * draft,
        MemoryPart.KV_CACHE_DRAFT: draft,
        MemoryPart.ACTIVATIONS: None,
        MemoryPart.GRAPHS: 210_000_000,
        MemoryPart.RESERVE: 900_000_000,
        MemoryPart.REMAINDER: 41_000_000,
        MemoryPart.HEADROOM: 71_000_000_000,
    }
    source = "engine log, a line with <b>markup</b>"
    return MemoryBreakdown(
        rows=tuple(MemoryRow(part=part, size_bytes=size, source=source) for part, size in sizes.items()),
        total_bytes=68_051_000_000,
        total_source="NVML, the device's used memory at its peak",
        capacity_bytes=150_000_000_000,
        kv_cache_tokens=1_669_792 if draft else 1_786_608,
        max_concurrency=54.5,
        caveats=("What the driver reserves moves totals.",),
    )
