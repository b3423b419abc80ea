"""The demo's two workloads as frozen traces: ``edit`` has checkable answers, ``open`` has none.

No prompt occurs twice, neither between warm-up and loads nor between the workloads, and every
family has the same share of every load point.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from tokenizers import Tokenizer

from app.demo.passages import OPEN_FAMILIES, Passages, read_passages
from app.demo.tasks import EDIT_FAMILIES, GENERATOR, Task
from app.domain.arrival import ArrivalKind, arrivals
from app.domain.trace import Trace, TraceHeader, TraceLoad, TraceRequest
from app.domain.vocabulary import NS_PER_S, WARMUP, Regime

SEED = 20_260
WARMUP_REQUESTS = 16
WARMUP_RPS = 10.0
"""Fast enough that warm-up requests overlap, so that batches are warmed up too."""
PROMPT_TOKENS_MAX = 200
LONG_PROMPT_TOKENS = 48
EDIT_MAX_TOKENS = 64
OPEN_MAX_TOKENS = 32
"""Open answers seldom end by themselves; this gives both workloads about the same work per request."""
ANSWER_TOKENS_MIN = 10
REPETITIVE_SHARE = 0.5
DRAWS_MAX = 2_000


@dataclass(frozen=True, slots=True)
class DemoLoad:
    """One load point of the demo: the rate is probed, the rest is fixed."""

    name: str
    regime: Regime
    rate_rps: float
    duration_s: int


def demo_loads(latency_rps: float, near_saturation_rps: float) -> tuple[DemoLoad, DemoLoad]:
    """Both load points; the durations keep five blocks of three arms under half an hour."""
    return (
        DemoLoad("latency", Regime.LATENCY, latency_rps, duration_s=8),
        DemoLoad("near-saturation", Regime.SERVING, near_saturation_rps, duration_s=10),
    )


def build_traces(tokenizer: Tokenizer, loads: tuple[DemoLoad, ...]) -> tuple[Trace, ...]:
    """The ``edit`` and ``open`` traces; the same tokenizer and loads always give the same bytes."""
    dealt: set[str] = set()
    passages = read_passages()
    edit = _Workload(
        "edit", "short copying, editing and JSON tasks with one right answer each", EDIT_MAX_TOKENS, EDIT_FAMILIES
    )
    open_ended = _Workload("open", "prose and code to be continued, without a right answer", OPEN_MAX_TOKENS, _OPEN)
    return tuple(
        _Dealer(workload, tokenizer, passages, dealt, random.Random(f"{SEED} {workload.name}")).trace(loads)
        for workload in (edit, open_ended)
    )


Maker = Callable[[random.Random, Passages], Task]


def _open_task(family: str) -> Maker:
    return lambda rng, passages: Task(family, OPEN_FAMILIES[family](rng, passages), None)


_OPEN: dict[str, Maker] = {family: _open_task(family) for family in OPEN_FAMILIES}


@dataclass(frozen=True, slots=True)
class _Workload:
    name: str
    description: str
    max_tokens: int
    families: dict[str, Maker]


@dataclass(slots=True)
class _Dealer:
    """Deals tasks that fit and were never dealt before."""

    workload: _Workload
    tokenizer: Tokenizer
    passages: Passages
    dealt: set[str]
    rng: random.Random
    sequence: int = field(default=0)

    def trace(self, loads: tuple[DemoLoad, ...]) -> Trace:
        # The warm-up is dealt first: it does not change with the probed rates.
        warmup = self._segment(
            WARMUP,
            arrivals(
                ArrivalKind.CONSTANT,
                rate_rps=WARMUP_RPS,
                duration_ns=round(WARMUP_REQUESTS / WARMUP_RPS * NS_PER_S),
                seed=0,
            ),
        )
        segments = [self._segment(load.name, self._arrivals(load)) for load in loads]
        header = TraceHeader(
            name=self.workload.name,
            description=self.workload.description,
            source=f"{GENERATOR}, seed {SEED}; synthetic, not production traffic",
            content_valid=True,
            warmup_requests=len(warmup),
            loads=tuple(
                TraceLoad(
                    name=load.name,
                    rate_rps=load.rate_rps,
                    requests=len(segment),
                    duration_ns=load.duration_s * NS_PER_S,
                )
                for load, segment in zip(loads, segments, strict=True)
            ),
        )
        return Trace(header=header, requests=(*warmup, *(request for segment in segments for request in segment)))

    def _arrivals(self, load: DemoLoad) -> tuple[int, ...]:
        return arrivals(
            ArrivalKind.POISSON,
            rate_rps=load.rate_rps,
            duration_ns=load.duration_s * NS_PER_S,
            seed=self.rng.getrandbits(32),
        )

    def _segment(self, load: str, offsets: tuple[int, ...]) -> tuple[TraceRequest, ...]:
        families = [*self.workload.families] * (len(offsets) // len(self.workload.families) + 1)
        order = families[: len(offsets)]
        self.rng.shuffle(order)
        return tuple(self._request(load, due_ns, family) for due_ns, family in zip(offsets, order, strict=True))

    def _request(self, load: str, due_ns: int, family: str) -> TraceRequest:
        task, prompt, token_ids = self._deal(family)
        self.sequence += 1
        return TraceRequest(
            request_id=f"{self.workload.name}-{self.sequence:05d}",
            load=load,
            due_ns=due_ns,
            prompt_token_ids=tuple(token_ids),
            max_tokens=self.workload.max_tokens,
            strata={
                "task": family,
                "input": "long" if len(token_ids) > LONG_PROMPT_TOKENS else "short",
                "repetitive": "yes" if self._is_repetitive(task, token_ids) else "no",
            },
            prompt_text=prompt,
            reference=task.answer,
        )

    def _deal(self, family: str) -> tuple[Task, str, list[int]]:
        for _ in range(DRAWS_MAX):
            task = self.workload.families[family](self.rng, self.passages)
            prompt = chat_prompt(task.instruction)
            token_ids = self._encode(prompt)
            if prompt not in self.dealt and len(token_ids) <= PROMPT_TOKENS_MAX and self._answer_fits(task):
                self.dealt.add(prompt)
                return task, prompt, token_ids
        raise RuntimeError(f"the generator found no fresh {family} task in {DRAWS_MAX} draws; widen its word lists")

    def _answer_fits(self, task: Task) -> bool:
        # The end token needs one place too, or the right answer would be cut off.
        return task.answer is None or ANSWER_TOKENS_MIN <= len(self._encode(task.answer)) < self.workload.max_tokens

    def _is_repetitive(self, task: Task, prompt_ids: list[int]) -> bool:
        """Whether most of the answer's token pairs are in the prompt: what prompt lookup lives on.

        Open-ended tasks have no answer to look up, so they are not.
        """
        return task.answer is not None and _share_of_pairs(self._encode(task.answer), prompt_ids) >= REPETITIVE_SHARE

    def _encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids


def chat_prompt(instruction: str) -> str:
    """One user turn in the bundled models' chat format, up to where the answer begins."""
    return f"<|user|>\n{instruction}<|end|>\n<|assistant|>\n"


def _share_of_pairs(token_ids: list[int], source_ids: list[int]) -> float:
    known = set(pairwise(source_ids))
    pairs = list(pairwise(token_ids))
    return sum(pair in known for pair in pairs) / len(pairs)
