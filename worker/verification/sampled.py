"""Sampled answers: a few prompts many times each at the experiment's own sampling, every sample with its own seed.

A target-only server scores afterwards what all arms of a block said: it states its most probable tokens at each place.
"""

import asyncio
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import httpx

from app.domain.canonical import digest
from app.domain.greedy import Prompt
from app.domain.greedy_cases import left_out_name
from app.domain.sampled_places import Fit, fit, stated, unjudged
from app.domain.sampling_equality import HOTTER
from app.domain.trace_request import SamplingOverrides, TraceRequest
from app.domain.verified import (
    Alternative,
    ForcedChoice,
    ScoredAnswer,
    VerificationMode,
    VerificationRecord,
    VerifiedAnswer,
)
from app.domain.vocabulary import BASELINE_ARM
from worker.engine.scrape import client
from worker.requests import COMPLETIONS_PATH
from worker.verification.asking import Asker, Prompts
from worker.verification.forcing import ALTERNATIVES_ASKED, ANSWER_TIMEOUT_S, ChoiceRefused, prompt_ids

PROMPTS: Final = 8
SAMPLES: Final = 48
"""Of each prompt, by each server: over two blocks, with answers of 32 tokens, 24,000 places of an arm."""
TOKENS: Final = 32
"""Answers are cut here: a place says as much as the next, and the whole of a long answer costs more."""
_OWN_SAMPLING: Final = (
    "{} requests sample by parameters of their own or under a grammar: their places are not the model's"
)
_MARK: Final = "~"


class Said(NamedTuple):
    """A sampled answer and whose it is."""

    arm: str
    answer: VerifiedAnswer


class _Place(NamedTuple):
    """The stated tokens of one place of an answer."""

    alternatives: tuple[Alternative, ...]


def sampled_prompts(prompts: Prompts, seed: int) -> tuple[Prompts, dict[str, str]]:
    """At most ``PROMPTS`` that sample as the experiment says, the shorter half first; the same for every arm."""
    every = [(workload, request) for workload, requests in prompts.items() for request in requests]
    usable = [(workload, request) for workload, request in every if _samples_as_asked(request)]
    random.Random(f"{seed} sampled").shuffle(usable)
    lengths = sorted(map(_length, usable))
    usable.sort(key=lambda one: _length(one) > lengths[len(lengths) // 2])
    chosen: dict[str, tuple[TraceRequest, ...]] = {}
    for workload, request in usable[:PROMPTS]:
        chosen[workload] = (*chosen.get(workload, ()), request)
    odd = len(every) - len(usable)
    return chosen, {"sampled": _OWN_SAMPLING.format(odd)} if odd else {}


async def sample(
    asker: Asker,
    prompts: Prompts,
    mode: VerificationMode,
    *,
    seeds: str,
    samples: int = SAMPLES,
    tokens: int = TOKENS,
) -> tuple[VerifiedAnswer, ...]:
    """Every prompt ``samples`` times. ``seeds`` names server and arm, so that no two sides share randomness.

    Raises ``ReplayFailed``.
    """
    heat = HOTTER if mode is VerificationMode.SAMPLED_HOTTER else 1.0
    asked = {
        workload: tuple(
            _sampling_request(request, number, asker.sampling.temperature * heat, f"{seeds} {mode} {workload}", tokens)
            for request in requests
            for number in range(samples)
        )
        for workload, requests in prompts.items()
    }
    seed_of = {(w, r.request_id): r.sampling.seed for w, rs in asked.items() for r in rs if r.sampling}
    return tuple(_told(answer, seed_of) for answer in await asker.ask(asked, mode))


async def sample_server(asker: Asker, prompts: Prompts, arm: str, seed: int, *, seeds: str) -> VerificationRecord:
    """What a session's server is asked; target-only also gives the negative control. Raises ``ReplayFailed``."""
    chosen, left_out = sampled_prompts(prompts, seed)
    answers = await sample(asker, chosen, VerificationMode.SAMPLED, seeds=f"{seeds} {arm}")
    if arm == BASELINE_ARM:
        answers += await sample(asker, chosen, VerificationMode.SAMPLED_HOTTER, seeds=f"{seeds} {arm}")
    return VerificationRecord(answers=answers, left_out=left_out)


@dataclass(frozen=True, slots=True)
class Scorer:
    """A target-only server that states its most probable tokens at the places of other servers' answers."""

    asker: Asker
    raw_logits: bool = False

    async def score(self, prompts: Prompts, said: Sequence[Said]) -> VerificationRecord:
        """How every answer fits; the first places are told as forced choices. What cannot be scored is said."""
        if why := unjudged(self.asker.sampling):
            return VerificationRecord(left_out={"scores of sampled answers": why})
        choices: list[ForcedChoice] = []
        scored: list[ScoredAnswer] = []
        left_out: dict[str, str] = {}
        async with client(self.asker.server.socket_path, ANSWER_TIMEOUT_S) as engine:
            for workload, requests in prompts.items():
                for request in requests:
                    prompt = Prompt(workload, request.request_id)
                    try:
                        told = await self._of_prompt(engine, prompt, request, _of(said, prompt))
                    except (ChoiceRefused, httpx.HTTPError) as error:
                        left_out[f"scores of {left_out_name(prompt)}"] = f"{type(error).__name__}: {error}"
                        continue
                    choices += told.choices
                    scored += told.scored
        return VerificationRecord(
            choices=tuple(choices), scored=tuple(scored), raw_logits=self.raw_logits, left_out=left_out
        )

    async def _of_prompt(
        self, engine: httpx.AsyncClient, prompt: Prompt, request: TraceRequest, said: Sequence[Said]
    ) -> VerificationRecord:
        ids = await prompt_ids(engine, self.asker, request)
        answers = sorted({one.answer.token_ids for one in said if one.answer.token_ids})
        limit = asyncio.Semaphore(self.asker.clients_max)

        async def places(tokens: tuple[int, ...]) -> list[_Place]:
            async with limit:
                return await _places(engine, self.asker, ids, tokens)

        told = dict(zip(answers, await asyncio.gather(*map(places, answers)), strict=True))
        first = next((given[0].alternatives for given in told.values() if given), ())
        return VerificationRecord(
            choices=(_choice(prompt, first),) if first else (),
            scored=tuple(self._scored(one, told[one.answer.token_ids]) for one in said if one.answer.token_ids in told),
        )

    def _scored(self, one: Said, places: Sequence[_Place]) -> ScoredAnswer:
        rows = [stated(place.alternatives, self.asker.sampling, raw_logits=self.raw_logits) for place in places]
        found: Fit = fit(one.answer.token_ids, rows)
        answer = one.answer
        whose = {"arm": one.arm, "mode": answer.mode, "workload": answer.workload, "repeat": answer.repeat}
        return ScoredAnswer.model_validate({**whose, "request_id": answer.request_id, **found._asdict()})


def said_by(sessions: Iterable[tuple[str, VerificationRecord | None]]) -> list[Said]:
    """Every sampled answer of (arm, record) pairs that came whole."""
    modes = (VerificationMode.SAMPLED, VerificationMode.SAMPLED_HOTTER)
    return [
        Said(arm, answer)
        for arm, record in sessions
        for answer in (record.answers if record else ())
        if answer.mode in modes and answer.error is None
    ]


async def _places(
    engine: httpx.AsyncClient, asker: Asker, ids: tuple[int, ...], tokens: tuple[int, ...]
) -> list[_Place]:
    asked = {
        "model": asker.server.served_model_name,
        "prompt": [*ids, *tokens],
        "max_tokens": 1,
        "temperature": 0,
        "prompt_logprobs": ALTERNATIVES_ASKED,
        "cache_salt": digest(f"{asker.salt}/score".encode())[:32],
    }
    response = await engine.post(COMPLETIONS_PATH, json=asked)
    if not response.is_success:
        raise ChoiceRefused(f"a score was answered with {response.status_code}: {response.text[:200]}")
    try:
        rows = response.json()["choices"][0]["prompt_logprobs"][len(ids) :]
        found = [_place(row) for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        raise ChoiceRefused(f"the server states no prompt log probabilities ({type(error).__name__})") from error
    if len(found) != len(tokens):
        raise ChoiceRefused(f"the server stated {len(found)} places of an answer of {len(tokens)} tokens")
    return found


def _place(row: Mapping[str, Mapping[str, Any]]) -> _Place:
    """Without the answer's own token where it is not among the most probable: the rest must not depend on it."""
    kept = [(int(token), one["logprob"]) for token, one in row.items() if one["rank"] <= ALTERNATIVES_ASKED]
    alternatives = [Alternative(token_id=token, logit=value) for token, value in kept if value > float("-inf")]
    return _Place(tuple(sorted(alternatives, key=lambda one: (-one.logit, one.token_id))))


def _choice(prompt: Prompt, alternatives: tuple[Alternative, ...]) -> ForcedChoice:
    return ForcedChoice(workload=prompt.workload, request_id=prompt.request_id, beginning=(), alternatives=alternatives)


def _of(said: Sequence[Said], prompt: Prompt) -> list[Said]:
    return [one for one in said if (one.answer.workload, one.answer.request_id) == prompt]


def _samples_as_asked(request: TraceRequest) -> bool:
    own = SamplingOverrides() if request.sampling is None else request.sampling
    odd = own.model_dump(exclude_none=True).keys() - {"seed", "ignore_eos", "min_tokens"}
    return not odd and own.min_tokens is None and request.structured_outputs is None


def _length(one: tuple[str, TraceRequest]) -> int:
    """In tokens or characters, whichever there are; longer prompts cost more to score and say no more."""
    request = one[1]
    return len(request.prompt_token_ids) + len(request.prompt or "") + sum(len(str(m)) for m in request.messages)


def _sampling_request(request: TraceRequest, number: int, temperature: float, seeds: str, tokens: int) -> TraceRequest:
    own = request.sampling or SamplingOverrides()
    seed = int(digest(f"{seeds} {request.request_id} {number}".encode())[:8], 16)
    return request.model_copy(
        update={
            "request_id": f"{request.request_id}{_MARK}{number}",
            "max_tokens": min(request.max_tokens, tokens),
            "sampling": own.model_copy(update={"temperature": temperature, "seed": seed}),
        }
    )


def _told(answer: VerifiedAnswer, seed_of: Mapping[tuple[str, str], int | None]) -> VerifiedAnswer:
    """Under the request's own name again; texts of sampled answers are not kept, their tokens are."""
    name, _, number = answer.request_id.rpartition(_MARK)
    seed = seed_of.get((answer.workload, answer.request_id))
    return answer.model_copy(update={"request_id": name, "repeat": int(number), "seed": seed, "text": ""})
