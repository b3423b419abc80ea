"""What a trace may ask for, asked of the real vLLM on this processor: each kind is served, not only sent."""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.domain.observation import RequestObservation
from app.domain.trace import Trace, parse_trace
from app.domain.vocabulary import NS_PER_MS, NS_PER_S, Outcome
from tests.domain.test_trace_sessions import session
from tests.factories import encode_lines, make_manifest
from tests.worker.engine.test_real_engine import spec
from tests.worker.replays import replay
from worker.engine.server import VllmServer
from worker.requests import replay_plan

pytestmark = pytest.mark.real_engine

SAID = [{"role": "user", "content": "Copy the text:\nAda has four red lamps."}]
TOOL = {
    "type": "function",
    "function": {
        "name": "find",
        "parameters": {
            "type": "object",
            "properties": {"what": {"type": "string", "maxLength": 8}},
            "required": ["what"],
        },
    },
}
LAMP = {
    "type": "object",
    "properties": {"lamps": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["lamps"],
    "additionalProperties": False,
}
REQUESTS: dict[str, dict[str, Any]] = {
    "chat": {"messages": SAID},
    "text": {"prompt": "<|user|>\nCopy the text:\nlamps<|end|>\n<|assistant|>\n"},
    "choice": {"messages": SAID, "structured_outputs": {"choice": ["red", "blue"]}},
    "regex": {"messages": SAID, "structured_outputs": {"regex": "[0-9]{3}"}},
    "json": {"messages": SAID, "structured_outputs": {"json_schema": LAMP}},
    "grammar": {"prompt": "say a or b:", "structured_outputs": {"grammar": 'root ::= "a" | "b"'}},
    "tool": {"messages": SAID, "tools": [TOOL], "tool_choice": "none"},  # any other choice needs a parser: refused
    "chat-logprobs": {"messages": SAID, "logprobs": 2},
    "text-logprobs": {"prompt": "one two three", "logprobs": 0},
    "sampled": {"messages": SAID, "sampling": {"temperature": 0.8, "seed": 7, "top_k": 20, "frequency_penalty": 0.5}},
    "stop": {"messages": SAID, "stop": ["lamps"]},
    "salted": {"messages": SAID, "salt_group": "a"},
    "canceled": {"messages": SAID, "cancel_at_ns": 40 * NS_PER_MS, "sampling": {"ignore_eos": True}, "max_tokens": 400},
}


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A directory with a path short enough for a unix socket."""
    with tempfile.TemporaryDirectory(prefix="vd-") as directory:
        yield Path(directory)


def trace_of() -> Trace:
    """Every kind of request half a second apart, then a conversation with the arm's own answers."""
    common = {"load": "low", "max_tokens": 24, "strata": {"task": "kind"}}
    kinds = [
        common | {"request_id": name, "due_ns": i * NS_PER_S // 2} | asked
        for i, (name, asked) in enumerate(REQUESTS.items())
    ]
    turns = [turn | {"due_ns": len(kinds) * NS_PER_S // 2, "max_tokens": 16} for turn in session("own")]
    header = {
        "format": "verdraft/trace/v0",
        "name": "kinds",
        "description": "d",
        "source": "s",
        "content_valid": True,
        "warmup_requests": 0,
        "loads": [
            {
                "name": "low",
                "rate_rps": 2.0,
                "requests": len(kinds) + len(turns),
                "duration_ns": 10 * NS_PER_S,
                "turns": "own",
            }
        ],
    }
    return parse_trace(encode_lines([header, *kinds, *turns]))


async def observe(arm: str, scratch: Path) -> dict[str, RequestObservation]:
    launch, manifest = spec(arm, scratch), make_manifest()
    async with VllmServer(launch, scratch / "log", tag=f"real:{scratch.name}", startup_timeout_s=300):
        requests = trace_of().of_load("low")
        for attempt in ("first", "second"):  # first use compiles grammars and kernels, and a cancel must meet an answer
            plan = replay_plan(requests, manifest.sampling, salt=attempt, server=launch, cores=())
            record = await replay(plan, scratch / attempt)
    return {o.request_id: o for o in record.observations}


async def test_every_kind_of_request_is_served(scratch: Path) -> None:
    # Under ngram the engine ended once in this mixture; which request does it is not known yet.
    seen = await observe("target-only", scratch)
    wrong = {name: (o.outcome, o.error) for name, o in seen.items() if o.outcome is not Outcome.SUCCESS}
    assert wrong.pop("canceled")[0] is Outcome.CLIENT_CANCEL
    assert not wrong
    assert seen["choice"].text in {"red", "blue"}
    assert seen["regex"].text.isdigit()
    assert re.match(r'\s*\{\s*"lamps"\s*:\s*[0-9]?', seen["json"].text)  # white space is free, so it may be cut off
    assert seen["grammar"].text in {"a", "b"}
    assert not seen["tool"].tool_calls
    for name in ("chat-logprobs", "text-logprobs"):
        assert len(seen[name].logprobs) == len(seen[name].token_ids) > 0
        assert max(seen[name].logprobs) <= 0
    assert "lamps" not in seen["stop"].text
    assert sum(seen["chat"].chunk_tokens) == len(seen["chat"].token_ids) == seen["chat"].completion_tokens
    assert [seen[f"s-{i}"].due_ns - (seen[f"s-{i - 1}"].end_ns or 0) for i in (1, 2)] == [NS_PER_S, NS_PER_S]
    assert (seen["s-1"].prompt_tokens or 0) > (seen["s-0"].prompt_tokens or 0)
