"""Forced choices: what the target would say next after a prompt and a given beginning of its answer.

One token is asked for, so that nothing else shares its step; prompts become token ids by the server's own template.
"""

import json
import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import httpx

from app.domain.canonical import digest
from app.domain.greedy import Prompt
from app.domain.greedy_cases import left_out_name
from app.domain.trace_request import TraceRequest
from app.domain.verified import Alternative, ForcedChoice, VerificationRecord
from worker.engine.scrape import client
from worker.requests import CHAT_PATH, COMPLETIONS_PATH, replay_plan
from worker.verification.asking import Asker, Prompts, greedily

ALTERNATIVES_ASKED: Final = 20
"""As many as engines give unless told otherwise: a token beyond them is no near tie."""
ANSWER_TIMEOUT_S: Final = 120.0
_AS_ID: Final = "token_id:"
_SHAPED: Final = "its penalties or biases change the logits by what was said before, so a forced choice would mislead"

Beginnings = Mapping[Prompt, Collection[tuple[int, ...]]]


class ChoiceRefused(Exception):
    """The server did not answer a forced choice."""


async def forced_choices(asker: Asker, prompts: Prompts, wanted: Beginnings) -> VerificationRecord:
    """The choices at every wanted beginning, with what the tokens say; what could not be asked is said."""
    choices: list[ForcedChoice] = []
    left_out: dict[str, str] = {}
    async with client(asker.server.socket_path, ANSWER_TIMEOUT_S) as engine:
        for workload, requests in greedily(prompts).items():
            for request in requests:
                prompt = Prompt(workload, request.request_id)
                try:
                    choices += await _of_prompt(engine, asker, prompt, request, sorted(wanted.get(prompt, ())))
                except (ChoiceRefused, httpx.HTTPError) as error:
                    left_out[f"choices of {left_out_name(prompt)}"] = f"{type(error).__name__}: {error}"
        texts = await _texts(engine, asker, _tokens(choices))
    return VerificationRecord(choices=tuple(choices), left_out=left_out, token_texts=texts)


async def _of_prompt(
    engine: httpx.AsyncClient, asker: Asker, prompt: Prompt, request: TraceRequest, beginnings: list[tuple[int, ...]]
) -> list[ForcedChoice]:
    if not beginnings:
        return []
    if is_shaped(asker, request):
        raise ChoiceRefused(_SHAPED)
    ids = await prompt_ids(engine, asker, request)
    return [
        ForcedChoice(
            workload=prompt.workload,
            request_id=prompt.request_id,
            beginning=beginning,
            alternatives=await _alternatives(engine, asker, (*ids, *beginning)),
        )
        for beginning in beginnings
    ]


def is_shaped(asker: Asker, request: TraceRequest) -> bool:
    """Whether logits depend on the answer so far by more than the model: a forced beginning counts as prompt."""
    own = asker.sampling.model_dump(exclude_none=True)
    if request.sampling is not None:
        own |= request.sampling.model_dump(exclude_none=True)
    penalties = (own.get("presence_penalty", 0), own.get("frequency_penalty", 0), own.get("repetition_penalty", 1) - 1)
    return any(penalties) or bool(own.get("logit_bias"))


async def prompt_ids(engine: httpx.AsyncClient, asker: Asker, request: TraceRequest) -> tuple[int, ...]:
    if request.prompt_token_ids:
        return request.prompt_token_ids
    salt = _salt(asker, request.request_id)
    (planned,) = replay_plan((request,), asker.sampling, salt=salt, server=asker.server, cores=()).requests
    asked: dict[str, Any] = {**json.loads(planned.body), "stream": False, "max_tokens": 1}
    asked.pop("stream_options", None)
    answer = await _post(engine, CHAT_PATH if request.messages else COMPLETIONS_PATH, asked)
    found = answer.get("prompt_token_ids") or answer["choices"][0].get("prompt_token_ids")
    if not found:
        raise ChoiceRefused("the server does not tell a prompt's token ids")
    return tuple(found)


async def _alternatives(engine: httpx.AsyncClient, asker: Asker, tokens: tuple[int, ...]) -> tuple[Alternative, ...]:
    asked = {
        "model": asker.server.served_model_name,
        "prompt": list(tokens),
        "max_tokens": 1,
        "temperature": 0,
        "logprobs": ALTERNATIVES_ASKED,
        "return_tokens_as_token_ids": True,
        "cache_salt": _salt(asker, json.dumps(tokens)),
    }
    answer = await _post(engine, COMPLETIONS_PATH, asked)
    try:
        (places,) = answer["choices"][0]["logprobs"]["top_logprobs"]
        found = [Alternative(token_id=_id(name), logit=logit) for name, logit in places.items() if math.isfinite(logit)]
    except (KeyError, TypeError, ValueError) as error:
        raise ChoiceRefused(f"the server gave no alternatives ({type(error).__name__})") from error
    return tuple(sorted(found, key=lambda a: (-a.logit, a.token_id)))


def _id(name: str) -> int:
    if not name.startswith(_AS_ID):
        raise ValueError(name)
    return int(name.removeprefix(_AS_ID))


def _salt(asker: Asker, what: str) -> str:
    return digest(f"{asker.salt}/choice/{what}".encode())[:32]


async def _post(engine: httpx.AsyncClient, path: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    response = await engine.post(path, json=asked)
    if not response.is_success:
        raise ChoiceRefused(f"{path} was answered with {response.status_code}: {response.text[:200]}")
    return response.json()


def _tokens(choices: Iterable[ForcedChoice]) -> list[int]:
    """Those that a reader will see: the best ones, and the last of each beginning."""
    shown: dict[int, None] = {}
    for choice in choices:
        shown |= dict.fromkeys((*choice.beginning[-8:], *(a.token_id for a in choice.alternatives[:5])))
    return list(shown)


async def _texts(engine: httpx.AsyncClient, asker: Asker, tokens: Iterable[int]) -> dict[int, str]:
    """Each token's text by itself; none where the server has no such route."""
    texts: dict[int, str] = {}
    for token in tokens:
        try:
            answer = await _post(engine, "/detokenize", {"model": asker.server.served_model_name, "tokens": [token]})
        except (ChoiceRefused, httpx.HTTPError):
            return texts
        texts[token] = str(answer.get("prompt", ""))
    return texts
