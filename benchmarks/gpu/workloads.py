"""The traces of the experiments on a GPU: tasks with one right answer each, no prompt twice.

The tasks are the demo's; what differs is how they are offered. The same tokenizer always gives the same bytes.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tokenizers import Tokenizer

from app.demo.passages import Passages, read_passages
from app.demo.tasks import EDIT_FAMILIES, GENERATOR, Task
from app.demo.workloads import chat_prompt
from app.domain.arrival import ArrivalKind, ArrivalNote, arrivals
from app.domain.rate_curve import PointProcess
from app.domain.trace import Trace, TraceHeader, TraceLoad, TraceRequest
from app.domain.vocabulary import NS_PER_S, WARMUP

SEED: Final = 20_261
MAX_TOKENS: Final = 96
PROMPT_TOKENS_MAX: Final = 400
ANSWER_TOKENS_MIN: Final = 24
COPYING: Final = ("copy",)
TRANSFORMATION: Final = ("table", "config", "lines", "rename")
DRAWS_MAX: Final = 20_000
CELL_REQUESTS: Final = 16
CELL_WARMUP: Final = 4
CURVE_S: Final = 6
SHARED: Final = "one Poisson process for all rates"


Offer = tuple[TraceLoad, tuple[int, ...]]
"""A load's line of the header, and when each of its requests is due."""


def closed_loop(name: str, clients: int, requests: int) -> Offer:
    """Clients that each wait for their answer."""
    return TraceLoad(name=name, clients=clients, requests=requests, duration_ns=0), (0,) * requests


def rate_curve(rates: Mapping[str, float], duration_s: int) -> tuple[Offer, ...]:
    """An open loop at each rate; all take their arrivals from one process, so that they do not differ in luck."""
    span_ns = duration_s * NS_PER_S
    base = arrivals(ArrivalKind.POISSON, rate_rps=max(rates.values()), duration_ns=span_ns, seed=SEED)
    process = PointProcess(base, span_ns, SEED)
    note = ArrivalNote(kind="thinned", seed=SEED, shared=SHARED)
    offered = {name: (rate, process.at_rate(rate)) for name, rate in rates.items()}
    return tuple(
        (TraceLoad(name=name, rate_rps=rate, requests=len(due), duration_ns=span_ns, arrival=note), due)
        for name, (rate, due) in offered.items()
    )


@dataclass(slots=True)
class Dealer:
    """Deals tasks of some families that fit and were never dealt before, in any of its traces."""

    tokenizer: Tokenizer
    passages: Passages = field(default_factory=read_passages)
    dealt: set[str] = field(default_factory=set[str])

    def trace(self, name: str, families: Sequence[str], offers: Sequence[Offer], *, warmup: Sequence[int]) -> Trace:
        """A frozen trace; each family has about the same share of every load. ``warmup``: when those are due."""
        rng = random.Random(f"{SEED} {name}")
        parts = [(WARMUP, warmup), *((load.name, due) for load, due in offers)]
        asked = [
            (load, at_ns, family)
            for load, due in parts
            for at_ns, family in zip(due, _mixed(families, due, rng), strict=True)
        ]
        header = TraceHeader(
            name=name,
            description=f"tasks with one right answer each: {', '.join(families)}",
            source=f"{GENERATOR}, seed {SEED}; synthetic, not production traffic",
            content_valid=True,
            warmup_requests=len(warmup),
            loads=tuple(load for load, _ in offers),
        )
        dealt = (self._deal(family, rng) for _, _, family in asked)
        requests = (
            TraceRequest(
                request_id=f"{name}-{number:05d}",
                load=load,
                due_ns=at_ns,
                prompt_token_ids=tuple(token_ids),
                max_tokens=MAX_TOKENS,
                strata={"task": family},
                prompt_text=prompt,
                reference=task.answer,
            )
            for number, ((load, at_ns, family), (task, prompt, token_ids)) in enumerate(zip(asked, dealt, strict=True))
        )
        return Trace(header=header, requests=tuple(requests))

    def _deal(self, family: str, rng: random.Random) -> tuple[Task, str, list[int]]:
        for _ in range(DRAWS_MAX):
            task = EDIT_FAMILIES[family](rng, self.passages)
            prompt = chat_prompt(task.instruction)
            token_ids = self._encode(prompt)
            answer = len(self._encode(task.answer or ""))
            fits = len(token_ids) <= PROMPT_TOKENS_MAX and ANSWER_TOKENS_MIN <= answer < MAX_TOKENS
            if fits and prompt not in self.dealt:
                self.dealt.add(prompt)
                return task, prompt, token_ids
        raise RuntimeError(f"no fresh {family} task in {DRAWS_MAX} draws; ask for fewer requests")

    def _encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids


def _mixed(families: Sequence[str], due: Sequence[int], rng: random.Random) -> list[str]:
    order = [families[number % len(families)] for number in range(len(due))]
    rng.shuffle(order)
    return order


def _each(seconds: float, count: int) -> tuple[int, ...]:
    return tuple(round(number * seconds * NS_PER_S) for number in range(count))


def published(tokenizer: Tokenizer, cells: Mapping[str, int]) -> Mapping[str, Trace]:
    """Copying and transformation; ``cells``: load → clients. Eight warm-up requests are four for each of two cells."""
    dealer = Dealer(tokenizer)
    offers = [closed_loop(name, clients, CELL_REQUESTS) for name, clients in cells.items()]
    warmup = _each(0.25, CELL_WARMUP * len(cells))
    return {
        name: dealer.trace(name, families, offers, warmup=warmup)
        for name, families in (("copying", COPYING), ("transformation", TRANSFORMATION))
    }


def crossover(tokenizer: Tokenizer, rates: Mapping[str, float]) -> Mapping[str, Trace]:
    """All task families at every rate; ``rates``: load → requests/s."""
    offers = rate_curve(rates, CURVE_S)
    return {"tasks": Dealer(tokenizer).trace("tasks", tuple(EDIT_FAMILIES), offers, warmup=_each(0.05, 56))}
