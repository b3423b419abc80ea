"""The fake's HTTP face: the routes of vLLM's API server that this product calls, answered in vLLM's shapes."""

import argparse
import asyncio
import json
import os
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from tests.fakes.dials import Faults
from tests.fakes.engine import Generation, SimulatedEngine
from tests.fakes.loopback import Call, Reply
from tests.fakes.metrics import EngineMetrics
from tests.fakes.startup_log import VERSION, StartupLog
from tests.fakes.wrongs import TOP_LOGIT
from worker.replay.clock import monotonic_ns
from worker.replay.null_answers import chat_chunk_payload, chunk_payload, usage, usage_payload

NS_PER_MS = 1_000_000
ENGINE_FAILED = "EngineCore encountered an issue. See stack trace (above) for the root cause."


class Refused(Exception):
    """A request that vLLM answers with an error object."""

    def __init__(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.error = {"error": {"message": message, "type": kind, "param": param, "code": status}}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a completion request asks for."""

    response_id: str
    prompt: tuple[int, ...]
    max_tokens: int
    stream: bool
    include_usage: bool
    return_token_ids: bool
    chats: bool
    logprobs: int
    temperature: float = 0.0
    seed: int | None = None
    states_prompt: bool = False


class ApiServer:
    """One served model with one engine behind it."""

    def __init__(
        self, arguments: argparse.Namespace, engine: SimulatedEngine, metrics: EngineMetrics, faults: Faults,
        *, log: StartupLog, resolves: dict[str, Any] | None,
    ) -> None:  # fmt: skip
        """``resolves`` replaces settings as ``section.key`` → value; ``None``: the server states none at all."""
        self._resolves = resolves
        self._arguments, self._engine, self._metrics, self._faults, self._log = arguments, engine, metrics, faults, log
        self._model: str = (arguments.served_model_name or [arguments.model_tag])[0]
        self._received = 0

    async def answer(self, call: Call, reply: Reply) -> None:
        match (call.method, call.path):
            case ("POST", "/v1/completions" | "/v1/chat/completions"):
                await self._complete_or_refuse(call, reply)
            case ("POST", "/detokenize"):
                reply.send_json(200, {"prompt": text_of(json.loads(call.body)["tokens"])})
            case ("GET", "/health") | ("POST", "/reset_prefix_cache"):
                reply.send(200, b"")
            case ("GET", "/v1/models"):
                card = {"id": self._model, "object": "model", "max_model_len": self._arguments.max_model_len}
                reply.send_json(200, {"object": "list", "data": [card]})
            case ("GET", "/metrics"):
                reply.send(200, self._metrics.exposition(), "text/plain; version=0.0.4; charset=utf-8")
            case ("GET", "/version"):
                reply.send_json(200, {"version": VERSION})
            case ("GET", "/server_info") if (
                self._resolves is not None and os.environ.get("VLLM_SERVER_DEV_MODE") == "1"
            ):
                reply.send_json(200, self._server_info(self._resolves))
            case _:
                reply.send_json(404, {"error": {"message": "Not Found", "type": "NotFoundError", "code": 404}})

    async def _complete_or_refuse(self, call: Call, reply: Reply) -> None:
        try:
            asked = self._read(call)
        except Refused as refusal:
            reply.send_json(refusal.status, refusal.error)
            return
        self._received += 1
        if self._faults.freeze_after_requests and self._received > self._faults.freeze_after_requests:
            self._engine.freeze()
        if self._faults.flood_after_requests and self._received == self._faults.flood_after_requests + 1:
            self._log.flood()
        length = self._engine.length(asked.prompt, asked.max_tokens)
        sampled = self._engine.sample(asked.prompt, length, asked.temperature, asked.seed)
        generation = Generation(asked.prompt, length, call.arrived_ns, sampled)
        try:
            await (self._stream if asked.stream else self._whole)(asked, generation, reply, self._received)
        except asyncio.CancelledError:
            self._engine.finish(generation, "abort")
            raise

    def _read(self, call: Call) -> Asked:
        body: dict[str, Any] = json.loads(call.body)
        if body.get("model") != self._model:
            raise Refused(404, "NotFoundError", f"The model `{body.get('model')}` does not exist.", "model")
        chats = call.path.endswith("/chat/completions")
        prompt = _tokens_of(json.dumps(body["messages"]) if chats else body["prompt"])
        max_tokens = int(body.get("max_tokens") or 16)
        length, limit = len(prompt) + max_tokens, self._arguments.max_model_len
        if length > limit:
            message = f"This model's maximum context length is {limit} tokens. However, you requested {length} tokens."
            raise Refused(400, "BadRequestError", message, "input_tokens")
        return Asked(
            response_id=f"cmpl-{call.headers.get('x-request-id') or monotonic_ns()}",
            prompt=prompt,
            max_tokens=max_tokens,
            stream=bool(body.get("stream")),
            include_usage=bool((body.get("stream_options") or {}).get("include_usage")),
            return_token_ids=bool(body.get("return_token_ids")),
            chats=chats,
            logprobs=int(body.get("logprobs") or 0),
            temperature=float(body.get("temperature") or 0.0),
            seed=body.get("seed"),
            states_prompt=bool(body.get("prompt_logprobs")),
        )

    async def _stream(self, asked: Asked, generation: Generation, reply: Reply, number: int) -> None:
        reply.open_stream()
        payload_of = chat_chunk_payload if asked.chats else chunk_payload
        async with aclosing(self._engine.generate(generation)) as steps:
            async for tokens in steps:
                is_last = generation.emitted == generation.max_tokens
                finish_reason = self._engine.finish_reason(asked.prompt) if is_last else None
                is_first = generation.emitted == len(tokens)
                reply.event(
                    payload_of(
                        asked.response_id,
                        self._model,
                        text_of(tokens),
                        tuple(tokens) if asked.return_token_ids else None,
                        finish_reason=finish_reason,
                        prompt_token_ids=asked.prompt if is_first and asked.return_token_ids else None,
                    )
                )
                if self._breaks(number, reply):
                    self._engine.finish(generation, "error")
                    return
        self._engine.finish(generation, "length")
        metrics = self._request_metrics(generation)
        tail = [usage_payload(asked.response_id, self._model, len(asked.prompt), generation.emitted, metrics)]
        reply.event(*(tail if asked.include_usage else []), "[DONE]")
        reply.close_stream()

    async def _whole(self, asked: Asked, generation: Generation, reply: Reply, _number: int) -> None:
        if asked.logprobs and (logits := self._engine.forced(asked.prompt)):
            reply.send_json(200, self._forced(asked, logits))
            return
        tokens: list[int] = []
        async with aclosing(self._engine.generate(generation)) as steps:
            async for step in steps:
                tokens += step
        self._engine.finish(generation, "length")
        token_ids = tuple(tokens) if asked.return_token_ids else None
        payload: dict[str, Any] = json.loads(
            chunk_payload(asked.response_id, self._model, text_of(tokens), token_ids, finish_reason="length")
        )
        payload["choices"][0]["prompt_token_ids"] = asked.prompt if asked.return_token_ids else None
        if asked.states_prompt:
            payload["choices"][0]["prompt_logprobs"] = self._engine.stated(asked.prompt)
        payload["usage"] = usage(len(asked.prompt), len(tokens))
        payload["metrics"] = self._request_metrics(generation)
        reply.send_json(200, payload)

    def _forced(self, asked: Asked, logits: dict[str, float]) -> dict[str, Any]:
        """One token with its alternatives: logits, or log probabilities unless the server tells the former."""
        if self._arguments.logprobs_mode != "raw_logits":
            logits = {token: logit - TOP_LOGIT for token, logit in logits.items()}
        best = max(logits, key=lambda token: logits[token])
        token_id = int(best.removeprefix("token_id:"))
        payload: dict[str, Any] = json.loads(
            chunk_payload(asked.response_id, self._model, text_of([token_id]), (token_id,), finish_reason="length")
        )
        told = {"tokens": [best], "token_logprobs": [logits[best]], "top_logprobs": [logits], "text_offset": [0]}
        payload["choices"][0]["logprobs"] = told
        payload["usage"] = usage(len(asked.prompt), 1)
        self._metrics.generation_tokens.inc(1)
        return payload

    def _breaks(self, number: int, reply: Reply) -> bool:
        """Apply the fault that is due for this request after its first chunk; whether the answer is over."""
        faults = self._faults
        if faults.die_after_requests and number > faults.die_after_requests:
            self._log.crash("RuntimeError: the simulated engine was told to die")
            os._exit(1)
        if faults.stream_error_every and number % faults.stream_error_every == 0:
            error = Refused(500, "InternalServerError", ENGINE_FAILED).error
            reply.event(json.dumps(error), "[DONE]")
            reply.close_stream()
            return True
        if faults.truncate_every and number % faults.truncate_every == 0:
            reply.abort()
            return True
        return False

    def _request_metrics(self, generation: Generation) -> dict[str, Any] | None:
        if not self._arguments.enable_per_request_metrics:
            return None
        started_ns = generation.arrived_ns + generation.queued_ns
        metrics: dict[str, Any] = {
            "time_to_first_token_ms": (generation.first_token_ns - started_ns) / NS_PER_MS,
            "queue_time_ms": generation.queued_ns / NS_PER_MS,
            "generation_time_ms": (monotonic_ns() - generation.first_token_ns) / NS_PER_MS,
        }
        if self._arguments.per_request_spec_decode_metrics == "detailed":
            k = self._arguments.speculative_config["num_speculative_tokens"]
            metrics["speculative_decoding"] = speculative_decoding(generation, k)
        return metrics

    def _server_info(self, resolves: dict[str, Any]) -> dict[str, Any]:
        a = self._arguments
        environment: dict[str, Any] = {name: value for name, value in os.environ.items() if name.startswith("VLLM_")}
        sections: dict[str, Any] = {
            "model_config": {"model": a.model_tag, "dtype": "torch.bfloat16", "max_model_len": a.max_model_len,
                             "enforce_eager": bool(a.enforce_eager), "seed": int(a.seed or 0)},
            "cache_config": {"block_size": 128, "enable_prefix_caching": a.enable_prefix_caching is not False},
            "scheduler_config": {"max_num_seqs": a.max_num_seqs, "async_scheduling": bool(a.async_scheduling)},
            "speculative_config": a.speculative_config,
            "observability_config": {"per_request_spec_decode_metrics": a.per_request_spec_decode_metrics},
            "instance_id": f"{os.getpid():05x}",
        }  # fmt: skip
        for name, value in resolves.items():
            section, _, key = name.partition(".")
            if section == "env":
                environment[key] = value
            else:
                sections[section] = {**(sections.get(section) or {}), key: value}
        return {"vllm_config": sections, "vllm_env": environment, "system_env": {}}


def speculative_decoding(generation: Generation, k: int) -> dict[str, Any]:
    """``metrics.speculative_decoding`` of one request."""
    steps, accepted, drafted = len(generation.accepted), sum(generation.accepted), sum(generation.drafted)
    return {
        "mean_acceptance_length": 1 + accepted / steps if steps else None,
        "draft_acceptance_rate": accepted / drafted if drafted else None,
        "acceptance_histogram": [generation.accepted.count(length) for length in range(k + 1)],
        "num_spec_steps": steps,
        "num_accepted_draft_tokens": accepted,
        "num_draft_tokens": drafted,
        "num_spec_tokens": k,
        "per_step_accepted": generation.accepted,
        "per_step_drafted": generation.drafted,
    }


def text_of(tokens: Sequence[int]) -> str:
    return "".join(f" t{token}" for token in tokens)


def _tokens_of(prompt: Any) -> tuple[int, ...]:
    """A prompt given as ids is itself; of a text, its bytes stand in for tokens."""
    tokens = tuple(prompt.encode()) if isinstance(prompt, str) else tuple(prompt)
    if not tokens:
        raise Refused(400, "BadRequestError", "The decoder prompt cannot be empty", "prompt")
    return tokens
