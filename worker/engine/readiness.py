"""Is the server ready to be measured? Health alone does not say so: a canary must come back.

The canary is a streaming request of the real shape; some configurations answer ``/health`` and
die of the first request.
"""

import json
from collections.abc import Iterator
from typing import Any

import httpx

from worker.engine.scrape import client

CANARY_TOKENS = 16
_PROMPT = [1, 2, 3, 4] * 4  # small ids are in every vocabulary; the repetition gives a lookup something to draft


class CanaryFailed(Exception):
    """The server was healthy but did not answer the canary as it must."""


async def is_ready(socket_path: str, served_model_name: str) -> bool:
    """Whether ``/health`` is OK and the model is served under its name."""
    try:
        async with client(socket_path, timeout_s=5) as engine:
            health = await engine.get("/health")
            models = await engine.get("/v1/models")
    except httpx.HTTPError:
        return False  # not listening yet, or busy starting
    if not (health.is_success and models.is_success):
        return False
    return served_model_name in {model.get("id") for model in models.json().get("data", [])}


async def send_canary(socket_path: str, served_model_name: str, timeout_s: float) -> None:
    """Raise ``CanaryFailed`` unless tokens and a finish reason arrive; ``httpx.TimeoutException`` if nothing does."""
    async with client(socket_path, timeout_s) as engine:
        try:
            response = await engine.post("/v1/completions", json=_body(served_model_name))
        except httpx.TimeoutException:
            raise
        except httpx.HTTPError as error:
            raise CanaryFailed(f"the connection broke ({type(error).__name__})") from error
    if not response.is_success:
        raise CanaryFailed(f"the server answered {response.status_code}: {response.text[:200]}")
    _check_stream(response.text)


def _body(served_model_name: str) -> dict[str, Any]:
    return {
        "model": served_model_name,
        "prompt": _PROMPT,
        "max_tokens": CANARY_TOKENS,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
        "cache_salt": "canary",
    }


def _check_stream(stream: str) -> None:
    events = list(_events(stream))
    errors = [event["error"] for event in events if "error" in event]
    if errors:
        raise CanaryFailed(f"the stream carried an error: {errors[0]}")
    choices = [choice for event in events for choice in event.get("choices", [])]
    if not any(choice.get("finish_reason") for choice in choices):
        raise CanaryFailed("the stream ended without a finish reason")
    if not any(choice.get("token_ids") for choice in choices):
        raise CanaryFailed("the stream carried no token ids")


def _events(stream: str) -> Iterator[dict[str, Any]]:
    for line in stream.splitlines():
        payload = line.removeprefix("data: ")
        if payload not in (line, "[DONE]"):
            yield json.loads(payload)
