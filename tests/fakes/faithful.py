"""A fake vLLM that honours every parameter of the regression suite, and breaks each of them when a mutation says so.

It simulates no timing: a step takes a moment, so that a client can leave in the middle.
"""

import argparse
import asyncio
import json
import os
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from tests.fakes.completions import Refused
from tests.fakes.dials import TARGET_ONLY
from tests.fakes.loopback import Call, Reply
from tests.fakes.metrics import EngineMetrics
from tests.fakes.mutations import mutations
from tests.fakes.small_model import SmallModel
from tests.fakes.startup_log import StartupLog
from tests.fakes.writing import Asked, Teller, Written, write

ARRIVAL_S, STEP_S = 0.004, 0.0005
CROWD, BLOCK = 2, 128
"""More requests than these at once are preempted; so many tokens are one block of the prefix cache."""
CHAT = "/v1/chat/completions"
LIMITS = "The min_p and logit_bias sampling parameters are not yet supported with speculative decoding."


class FaithfulServer:
    """One served model; ``method`` decides whether it drafts."""

    def __init__(
        self, arguments: argparse.Namespace, method: str, k: int, metrics: EngineMetrics, log: StartupLog
    ) -> None:
        self._directory = Path(arguments.model_tag)
        self._method, self._k, self._metrics, self._log = method, k, metrics, log
        self._name: str = (arguments.served_model_name or [arguments.model_tag])[0]
        self._max_model_len: int = arguments.max_model_len
        self._tokenizer: Tokenizer = Tokenizer.from_file(str(self._directory / "tokenizer.json"))
        self._model = SmallModel(self._tokenizer)
        self._running = self._leaked = 0
        self._cached: set[tuple[str, tuple[int, ...]]] = set()

    async def answer(self, call: Call, reply: Reply) -> None:
        on = mutations(self._directory, self._method)
        if "slot_not_freed" not in on:
            self._leak(-self._leaked)
        match (call.method, call.path):
            case ("POST", "/v1/completions" | "/v1/chat/completions"):
                try:
                    await self._complete(call, reply, on)
                except Refused as refusal:
                    reply.send_json(refusal.status, refusal.error)
            case ("GET", "/health"):
                reply.send(200, b"")
            case ("GET", "/metrics"):
                shown = b'vllm:spec_decode_num_draft_tokens_total{engine="0"} 0\n' if "shows_speculation" in on else b""
                reply.send(200, self._metrics.exposition() + shown, "text/plain; version=0.0.4; charset=utf-8")
            case ("GET", "/v1/models"):
                card = {"id": self._name, "object": "model", "max_model_len": self._max_model_len}
                reply.send_json(200, {"object": "list", "data": [card]})
            case _:
                reply.send_json(404, {"error": {"message": "Not Found", "type": "NotFoundError", "code": 404}})

    async def _complete(self, call: Call, reply: Reply, on: frozenset[str]) -> None:
        body: dict[str, Any] = json.loads(call.body)
        prompt = self._prompt(body, on, chats=call.path == CHAT)
        if "dies" in on or ("dies_of_stops" in on and body.get("stop")):
            self._log.crash("RuntimeError: the simulated engine was told to die")
            os._exit(1)
        if "errs_of_stops" in on and body.get("stop"):
            raise Refused(500, "InternalServerError", "Internal server error")
        self._run(1)
        try:
            await asyncio.sleep(ARRIVAL_S)  # others that were sent at once arrive too
            await self._give(self._asked(body, prompt, on), reply, chats=call.path == CHAT)
        except asyncio.CancelledError:
            self._metrics.success["abort"].inc(int("abort_not_counted" not in on))
            self._leak(int("slot_not_freed" in on))
            raise
        finally:
            self._run(-1)

    def _run(self, change: int) -> None:
        self._running += change
        self._metrics.running.set(self._running)

    def _leak(self, change: int) -> None:
        """Hold slots that nobody uses, while the mutation is on."""
        self._leaked += change
        self._run(change)

    def _prompt(self, body: dict[str, Any], on: frozenset[str], *, chats: bool) -> tuple[int, ...]:
        told = json.dumps(body["messages"]) if chats else body["prompt"]
        prompt = tuple(self._tokenizer.encode(told).ids) if isinstance(told, str) else tuple(told)
        for name in ("min_p", "logit_bias") if self._method != TARGET_ONLY else ():
            if body.get(name) and f"ignores:{name}" not in on:
                raise Refused(400, "BadRequestError", "sampled" if "refuses_namelessly" in on else LIMITS, name)
        if not prompt and "empty_prompt_served" not in on:
            raise Refused(400, "BadRequestError", "The decoder prompt cannot be empty", "prompt")
        if len(prompt) >= self._max_model_len and "truncates_prompt" not in on:
            message = f"This model's maximum context length is {self._max_model_len} tokens."
            raise Refused(400, "BadRequestError", message, "input_tokens")
        return prompt[: self._max_model_len - 1] if prompt else (1,)

    def _asked(self, body: dict[str, Any], prompt: tuple[int, ...], on: frozenset[str]) -> Asked:
        preempted = self._running > CROWD
        self._metrics.preemptions.inc(int(preempted))
        return Asked(
            body=body,
            prompt=prompt,
            on=on,
            k=self._k,
            room=self._max_model_len - len(prompt),
            cached=self._from_cache(str(body.get("cache_salt")), prompt),
            is_crowded=self._running > 1,
            is_preempted=preempted,
        )

    def _from_cache(self, salt: str, prompt: tuple[int, ...]) -> int:
        """How many tokens of the prompt an earlier one of the same salt began with."""
        blocks = [prompt[: end * BLOCK] for end in range(1, len(prompt) // BLOCK + 1)]
        cached = max((len(block) for block in blocks if (salt, block) in self._cached), default=0)
        self._cached |= {(salt, block) for block in blocks}
        return cached

    async def _give(self, asked: Asked, reply: Reply, *, chats: bool) -> None:
        choices = [write(self._model, asked, index) for index in range(asked.choices)]
        self._metrics.prompt_tokens.inc(len(asked.prompt))
        teller = Teller(asked, self._tokenizer, chats=chats)
        tail = _tail(asked, choices)
        if asked.body.get("stream"):
            await self._stream(teller, choices, reply, tail)
        else:
            self._metrics.generation_tokens.inc(sum(len(choice.tokens) for choice in choices))
            await asyncio.sleep(STEP_S * sum(len(choice.steps) for choice in choices))
            told = [teller.whole(index, choice) for index, choice in enumerate(choices)]
            reply.send_json(200, ["no answer"] if "strange_form" in asked.on else {"choices": told, **tail})
        self._count(choices, asked.on)

    async def _stream(self, teller: Teller, choices: list[Written], reply: Reply, tail: dict[str, Any]) -> None:
        reply.open_stream()
        for index, choice in enumerate(choices):
            for told in teller.chunks(index, choice):
                reply.event(json.dumps({"choices": [told]}, separators=(",", ":")))
                if "pretends_to_end" in teller.on:
                    reply.event(json.dumps({"choices": [{**teller.empty(index), "finish_reason": "stop"}]}), "[DONE]")
                    reply.close_stream()
                self._metrics.generation_tokens.inc(len(told["token_ids"]))
                if reply.ended:
                    return
                await asyncio.sleep(STEP_S)
        reply.event(json.dumps({"choices": [], **tail}), *(() if "lacks_done" in teller.on else ("[DONE]",)))
        reply.close_stream()

    def _count(self, choices: list[Written], on: frozenset[str]) -> None:
        for choice in choices:
            self._metrics.success[choice.finish_reason].inc()
            for accepted in choice.accepted if self._k and "drafts_nothing" not in on else ():
                self._metrics.count_draft(self._k, self._k if "overcounts_accepted" in on else accepted)


def _tail(asked: Asked, choices: list[Written]) -> dict[str, Any]:
    given = sum(len(choice.tokens) for choice in choices) + ("usage_wrong" in asked.on)
    usage = {"prompt_tokens": len(asked.prompt), "completion_tokens": given}
    details = {"prompt_tokens_details": {"cached_tokens": asked.cached}}
    steps = [accepted for choice in choices for accepted in choice.accepted]
    metrics = {"metrics": {"speculative_decoding": _speculation(steps, asked.k)}} if asked.k else {}
    return {"usage": {**usage, **details}, **metrics}


def _speculation(accepted: list[int], k: int) -> dict[str, Any]:
    drafted = [k] * len(accepted)
    return {
        "num_spec_steps": len(accepted),
        "num_draft_tokens": sum(drafted),
        "num_accepted_draft_tokens": sum(accepted),
        "per_step_accepted": accepted,
        "per_step_drafted": drafted,
    }
