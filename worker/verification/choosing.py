"""Which requests are verified: some of every stratum, chosen by a seed, the same for every arm and block."""

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from app.domain.greedy import Prompt
from app.domain.greedy_cases import left_out_name
from app.domain.trace_request import TraceRequest
from app.domain.vocabulary import WARMUP
from worker.prompts import ReplayTrace
from worker.verification.asking import Prompts

PER_STRATUM: Final = 4
PER_WORKLOAD_MAX: Final = 32

_EARLY_END: Final = "the trace ends them early"
_RECORDED: Final = "asked with the recorded answers to its earlier turns, not with the server's own"


class Choice(NamedTuple):
    """The chosen requests as they are asked, and what is to be known of others."""

    prompts: Prompts
    left_out: dict[str, str]


def choose(traces: Mapping[str, ReplayTrace], seed: int) -> Choice:
    """``PER_STRATUM`` requests of each stratum where there are as many, at most ``PER_WORKLOAD_MAX`` of a workload."""
    prompts: dict[str, tuple[TraceRequest, ...]] = {}
    left_out: dict[str, str] = {}
    for workload, trace in traces.items():
        requests = [r for load in trace.header.loads for r in trace.of_load(load.name) if load.name != WARMUP]
        usable = [r for r in requests if r.planned_end is None]
        if early := len(requests) - len(usable):
            left_out[workload] = f"{early} of {len(requests)} requests: {_EARLY_END}"
        chosen = spread(usable, random.Random(f"{seed} verification {workload}"))
        left_out |= {_name(workload, r): _RECORDED for r in chosen if needs_recorded(r)}
        prompts[workload] = tuple(alone(r) for r in chosen)
    return Choice(prompts, left_out)


def spread(requests: Iterable[TraceRequest], rng: random.Random) -> list[TraceRequest]:
    """Rarest strata first, so that none is crowded out; in the trace's order."""
    shuffled = list(requests)
    order = {request.request_id: place for place, request in enumerate(shuffled)}
    rng.shuffle(shuffled)
    chosen: dict[str, TraceRequest] = {}
    for members in sorted(_strata(shuffled).values(), key=len):
        wanted = PER_STRATUM - sum(r.request_id in chosen for r in members)
        for request in [r for r in members if r.request_id not in chosen][: max(wanted, 0)]:
            if len(chosen) < PER_WORKLOAD_MAX:
                chosen[request.request_id] = request
    return sorted(chosen.values(), key=lambda r: order[r.request_id])


def needs_recorded(request: TraceRequest) -> bool:
    """Whether it is a later turn whose earlier answers would be the server's own."""
    return request.turn is not None and request.turn.answer == "own" and request.turn.previous is not None


def alone(request: TraceRequest) -> TraceRequest:
    """The request by itself: nothing before it is waited for, nothing ends it early."""
    return request.model_copy(update={"turn": None, "deadline_ns": None, "cancel_at_ns": None})


def _strata(requests: Iterable[TraceRequest]) -> dict[tuple[str, str], list[TraceRequest]]:
    strata: dict[tuple[str, str], list[TraceRequest]] = defaultdict(list)
    for request in requests:
        for stratum in sorted(request.strata.items()):
            strata[stratum].append(request)
    return strata


def _name(workload: str, request: TraceRequest) -> str:
    return left_out_name(Prompt(workload, request.request_id))
