"""Evidence to load: one experiment's worth, seen over and over under other manifests.

Realistic in size, not in content: about 60 output tokens in as many chunks as the arm's acceptance gives.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from app.domain.evidence import CounterDeltas
from app.domain.manifest import Manifest
from app.domain.observation import RequestObservation, SpeculationCounts
from app.domain.series import Series
from app.domain.trace import Trace
from app.domain.vocabulary import BASELINE_ARM, NS_PER_MS, NS_PER_S, Outcome
from tests.factories import make_manifest, make_trace

REQUESTS_A_RUN: Final = 1000
BLOCKS: Final = 5
LOADS: Final = (
    {"name": "low", "regime": "latency", "rate_rps": 4.0},
    {"name": "high", "regime": "serving", "rate_rps": 20.0},
)
ARMS: Final = 2
RUNS_AN_EXPERIMENT: Final = BLOCKS * len(LOADS) * ARMS
OBSERVATIONS_AN_EXPERIMENT: Final = RUNS_AN_EXPERIMENT * REQUESTS_A_RUN
TOKENS: Final = 60
SAMPLED: Final = 20
"""Series of a run, at 1 Hz."""
_K: Final = 4
_STEP_NS: Final = 9 * NS_PER_MS
_WORDS: Final = ("return", "the", "value", "of", "each", "request", "as", "it", "was", "seen", "before")

Key = tuple[int, str, str]
"""Block, arm and load."""


@dataclass(frozen=True, slots=True)
class MadeRun:
    """What is recorded of one run."""

    observations: tuple[RequestObservation, ...]
    series: tuple[Series, ...]
    counters: CounterDeltas


def make_workload() -> Trace:
    """The one trace of all experiments."""
    return make_trace(loads=LOADS, requests=REQUESTS_A_RUN, warmup=2, max_tokens=TOKENS)


def manifest_of(trace: Trace, number: int) -> Manifest:
    """The ``number``-th experiment: the same but for its seed."""
    fields: dict[str, Any] = {"loads": list(LOADS), "blocks": BLOCKS, "schedule_seed": number}
    return make_manifest(name=f"evidence-{number}", traces={"tasks": trace.digest}, **fields)


def make_runs(trace: Trace, manifest: Manifest) -> Mapping[Key, MadeRun]:
    """Every run of an experiment."""
    return {
        (block, arm.name, load.name): _made(trace, block, arm.name, load.name)
        for block in range(manifest.blocks)
        for arm in manifest.arms
        for load in manifest.loads
    }


def _made(trace: Trace, block: int, arm: str, load: str) -> MadeRun:
    chance = random.Random(f"{block} {arm} {load}")
    requests = trace.of_load(load)
    seen = tuple(_observed(chance, r.request_id, r.due_ns, speculates=arm != BASELINE_ARM) for r in requests)
    return MadeRun(seen, tuple(_sampled(number, seen[-1].due_ns) for number in range(SAMPLED)), _counted(seen))


def _observed(chance: random.Random, request_id: str, due_ns: int, *, speculates: bool) -> RequestObservation:
    accepted = _accepted(chance) if speculates else (0,) * (TOKENS - 1)
    tokens = (1, *(n + 1 for n in accepted))
    sent_ns = due_ns + chance.randrange(20_000, 90_000)
    at_ns, chunk_ns = sent_ns + chance.randrange(15, 30) * NS_PER_MS, list[int]()
    for _ in tokens:
        chunk_ns.append(at_ns)
        at_ns += _STEP_NS + chance.randrange(NS_PER_MS)
    answer = random.Random(request_id)
    return RequestObservation(
        request_id=request_id,
        outcome=Outcome.SUCCESS,
        due_ns=due_ns,
        sent_ns=sent_ns,
        first_byte_ns=chunk_ns[0],
        end_ns=chunk_ns[-1] + 100_000,
        chunk_ns=tuple(chunk_ns),
        chunk_tokens=tokens,
        token_ids=tuple(answer.randrange(50_000) for _ in range(TOKENS)),
        text=" ".join(answer.choice(_WORDS) for _ in range(TOKENS)),
        finish_reason="length",
        prompt_tokens=3,
        completion_tokens=TOKENS,
        cached_tokens=0,
        queue_time_ns=chance.randrange(NS_PER_MS),
        speculation=_told(accepted) if speculates else None,
        http_status=200,
    )


def _accepted(chance: random.Random) -> tuple[int, ...]:
    """Accepted drafts of each step; the steps emit all but the first token."""
    steps, left = list[int](), TOKENS - 1
    while left:
        steps.append(min(chance.choice((0, 1, 1, 2, 4)), left - 1))
        left -= steps[-1] + 1
    return tuple(steps)


def _told(accepted: Sequence[int]) -> SpeculationCounts:
    return SpeculationCounts(
        num_spec_steps=len(accepted),
        num_draft_tokens=_K * len(accepted),
        num_accepted_draft_tokens=sum(accepted),
        acceptance_histogram=tuple(accepted.count(n) for n in range(_K + 1)),
        per_step_accepted=tuple(accepted),
        per_step_drafted=(_K,) * len(accepted),
    )


def _counted(seen: Sequence[RequestObservation]) -> CounterDeltas:
    told = [o.speculation for o in seen if o.speculation is not None]
    steps = [n for counts in told for n in counts.per_step_accepted]
    drafted = {
        "spec_decode_num_drafts": len(steps),
        "spec_decode_num_draft_tokens": _K * len(steps),
        "spec_decode_num_accepted_tokens": sum(steps),
        "spec_decode_num_accepted_tokens_per_pos": tuple(sum(n > place for n in steps) for place in range(_K)),
    }
    plain = {"prompt_tokens": 3 * len(seen), "generation_tokens": TOKENS * len(seen), "num_preemptions": 0}
    return CounterDeltas.model_validate(plain | {"request_success": len(seen)} | (drafted if told else {}))


def _sampled(number: int, until_ns: int) -> Series:
    at_ns = range(0, until_ns, NS_PER_S)
    return Series(name=f"vllm:made_{number}", at_ns=tuple(at_ns), values=tuple(float(at % 97) for at in at_ns))
