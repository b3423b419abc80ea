"""A simulated engine: real speculative steps with a known acceptance process, and no model.

A step drafts k tokens, accepts a prefix of them and emits one more. As in vLLM the prefill
emits the first token without a draft, steps without a draft are not counted, and accepted
tokens are counted even where ``max_tokens`` cuts them off.
"""

import asyncio
import hashlib
import json
import random
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.dials import TARGET_ONLY, Dials
from tests.fakes.loopback import sleep_until
from tests.fakes.metrics import EngineMetrics
from tests.fakes.sampling import sampled, stated
from tests.fakes.wrongs import TOP_LOGIT, Wrong, alternatives
from worker.replay.clock import monotonic_ns

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000


@dataclass(slots=True)
class Generation:
    """One request in the engine; the per-step arrays leave out steps without a draft."""

    prompt: tuple[int, ...]
    max_tokens: int
    arrived_ns: int
    sampled: tuple[int, ...] = ()
    """The whole answer of a request that samples; empty of a greedy one."""
    queued_ns: int = 0
    emitted: int = 0
    first_token_ns: int = 0
    drafted: list[int] = field(default_factory=list[int])
    accepted: list[int] = field(default_factory=list[int])


class SimulatedEngine:
    """``method`` and ``k`` as in ``--speculative-config``; ``session`` tells servers of one seed apart."""

    def __init__(
        self, dials: Dials, method: str, k: int, *, max_num_seqs: int, metrics: EngineMetrics, session: str
    ) -> None:
        self._dials, self._method, self._k = dials, method, k
        self._slots = asyncio.Semaphore(max_num_seqs)
        self._metrics = metrics
        self._max_num_seqs = max_num_seqs
        self._running = 0
        self._thawed = asyncio.Event()
        self._thawed.set()
        self._seed = f"{dials.seed}/{method}"
        self._wrong = dials.wrongs.get(method)
        self._coin = random.Random(f"coin/{self._seed}/{session}")
        self._known: dict[tuple[int, ...], int] = {}
        """Prompts that were answered, with the length of their answers: a forced choice continues one of them."""
        session_factor = random.Random(f"{self._seed}/{session}").gauss(0, dials.session_noise)
        self._session_factor = 2.718281828**session_factor

    def answer(self, prompt: tuple[int, ...], count: int) -> list[int]:
        """The greedy continuation: a function of the prompt, the same in every arm unless a dial says otherwise."""
        tokens = random.Random(prompt_hash(prompt))
        answer = [tokens.randrange(self._dials.vocabulary) for _ in range(count)]
        own = random.Random(f"mismatch/{self._seed}/{prompt_hash(prompt)}")
        if own.random() < self._dials.mismatch_of(self._method):
            half = count // 2
            answer[half:] = [(token + 1) % self._dials.vocabulary for token in answer[half:]]
        return answer

    def sample(self, prompt: tuple[int, ...], count: int, temperature: float, seed: int | None) -> tuple[int, ...]:
        """The answer at a temperature, with this method's defects of sampling; empty where the request is greedy."""
        if not self._dials.samples or temperature <= 0:
            return ()
        return sampled(
            prompt,
            count,
            vocabulary=self._dials.vocabulary,
            temperature=temperature * self._dials.heat_of(self._method),
            seed=seed if seed is not None else self._coin.randrange(2**32),
            takes_top=self._dials.takes_top_of(self._method),
        )

    def stated(self, prompt: tuple[int, ...]) -> list[Any] | None:
        """What ``prompt_logprobs`` gives."""
        return stated(prompt, self._dials.vocabulary) if self._dials.samples else None

    def forced(self, tokens: tuple[int, ...]) -> dict[str, float] | None:
        """The logits after a known prompt and a beginning of its right answer; ``None`` of any other prompt."""
        for prompt, count in self._known.items():
            place = len(tokens) - len(prompt)
            right = self.answer(prompt, count)
            if 0 <= place < count and tokens == (*prompt, *right[:place]):
                gaps = [wrong.gap for wrong in self._dials.wrongs.values() if wrong.at == place]
                return alternatives(right[place], self._dials.vocabulary, min(gaps, default=TOP_LOGIT))
        return None

    def length(self, prompt: tuple[int, ...], max_tokens: int) -> int:
        """How many tokens its answer has."""
        return max_tokens - (self._is_wrong(prompt) and self._wrong_of.drops_last)

    def finish_reason(self, prompt: tuple[int, ...]) -> str:
        """How its answer ends."""
        return (self._is_wrong(prompt) and self._wrong_of.finish_reason) or "length"

    @property
    def _wrong_of(self) -> Wrong:
        return self._wrong or Wrong(at=-1)

    def _is_wrong(self, prompt: tuple[int, ...]) -> bool:
        return self._wrong is not None and self._wrong.concerns(prompt_hash(prompt))

    def _given(self, prompt: tuple[int, ...], count: int) -> list[int]:
        """The answer with what this method gets wrong."""
        self._known.setdefault(prompt, count)
        answer, wrong = self.answer(prompt, count), self._wrong_of
        if self._is_wrong(prompt) and 0 <= wrong.at < count and wrong.happens(self._running, self._coin):
            answer[wrong.at] = (answer[wrong.at] + 1) % self._dials.vocabulary
        return answer

    async def generate(self, generation: Generation) -> AsyncGenerator[list[int], None]:
        """The tokens of each step, as they come."""
        self._metrics.waiting.inc()
        try:
            await self._slots.acquire()
        finally:
            self._metrics.waiting.dec()
        generation.queued_ns = monotonic_ns() - generation.arrived_ns
        self._count_running(1)
        try:
            async for tokens in self._steps(generation):
                yield tokens
        finally:
            self._count_running(-1)
            self._slots.release()

    def _count_running(self, change: int) -> None:
        """Each running request holds an equal share of the cache."""
        self._running += change
        self._metrics.running.set(self._running)
        self._metrics.kv_cache_usage.set(self._running / self._max_num_seqs)

    async def _steps(self, generation: Generation) -> AsyncGenerator[list[int], None]:
        answer = list(generation.sampled) or self._given(generation.prompt, generation.max_tokens)
        chance = random.Random(f"{self._seed}/{prompt_hash(generation.prompt)}")
        due_ns = monotonic_ns() + self._duration_ns(self._dials.ttft_ms, chance)
        await sleep_until(due_ns)
        await self._thawed.wait()
        self._metrics.prompt_tokens.inc(len(generation.prompt))
        generation.first_token_ns = monotonic_ns()
        self._metrics.ttft.observe((generation.first_token_ns - generation.arrived_ns) / NS_PER_S)
        yield self._emit(generation, answer, 1)
        while generation.emitted < generation.max_tokens:
            step_ns = self._duration_ns(self._dials.step_ms_of(self._method), chance)
            due_ns += step_ns
            await sleep_until(due_ns)
            await self._thawed.wait()
            self._metrics.inter_token.observe(step_ns / NS_PER_S)
            yield self._emit(generation, answer, 1 + self._speculate(generation, chance))

    def _emit(self, generation: Generation, answer: list[int], count: int) -> list[int]:
        tokens = answer[generation.emitted : generation.emitted + count]
        generation.emitted += len(tokens)
        self._metrics.generation_tokens.inc(len(tokens))
        self._metrics.iteration_tokens.observe(len(tokens))
        return tokens

    def _speculate(self, generation: Generation, chance: random.Random) -> int:
        """How many drafted tokens this step accepts."""
        if self._method == TARGET_ONLY or chance.random() >= self._dials.draft_rate_of(self._method):
            return 0
        accepted = 0
        while accepted < self._k and chance.random() < self._dials.acceptance_of(self._method, accepted):
            accepted += 1
        generation.drafted.append(self._k)
        generation.accepted.append(accepted)
        self._metrics.count_draft(self._k, accepted)
        return accepted

    def _duration_ns(self, mean_ms: float, chance: random.Random) -> int:
        crowd = 1 + self._dials.slowdown_per_running * (self._running - 1)
        noise = chance.lognormvariate(0, self._dials.noise) if self._dials.noise else 1.0
        return round(mean_ms * crowd * noise * self._session_factor * NS_PER_MS)

    def freeze(self) -> None:
        """Take no further step, ever; whoever asks how it is hears that all is well."""
        self._thawed.clear()

    def finish(self, generation: Generation, reason: str) -> None:
        """Count the request."""
        self._metrics.success[reason].inc()
        self._metrics.e2e.observe((monotonic_ns() - generation.arrived_ns) / NS_PER_S)
        self._metrics.queue.observe(generation.queued_ns / NS_PER_S)
        if self._method != TARGET_ONLY and self._dials.faults_of(self._method).wrong_metrics:
            self._metrics.accepted.inc()


def prompt_hash(prompt: tuple[int, ...]) -> str:
    return hashlib.sha256(json.dumps(prompt).encode()).hexdigest()
