"""What one line may say, and what is refused by the name of its field."""

from typing import Any

import pytest

from app.domain.errors import TraceRefused
from app.domain.trace import Trace, parse_trace
from tests.factories import encode_lines, trace_lines

CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
TOOL = {"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}
NAMED = {"type": "function", "function": {"name": "find"}}
WITHOUT_IDS = ("prompt_token_ids",)


def line(change: dict[str, Any]) -> dict[str, Any]:
    """A request's line with ``change``; a prompt in it takes the place of the token ids."""
    base = trace_lines(warmup=0, requests=1)[1]
    if change.keys() & {"prompt", "messages", "prompt_hash"}:
        del base["prompt_token_ids"]
    return base | change


def parse(change: dict[str, Any]) -> Trace:
    return parse_trace(encode_lines([trace_lines(warmup=0, requests=1)[0], line(change)]))


def refused(change: dict[str, Any]) -> tuple[str, str]:
    """(field, message) of the first problem."""
    with pytest.raises(TraceRefused) as caught:
        parse(change)
    problem = caught.value.problems[0]
    assert problem.remedy
    return problem.field, problem.message


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": "Say hi"},
        {"prompt": "Say hi", "input_tokens": 3},
        {"prompt_hash": "a" * 64, "input_tokens": 3},
        CHAT,
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]},
        {
            "messages": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": "find it", "name": "ann"},
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}],
                },
                {"role": "tool", "content": "here", "tool_call_id": "c1"},
            ],
            "tools": [TOOL],
            "tool_choice": NAMED,
        },
        {**CHAT, "tools": [TOOL], "tool_choice": "required"},
        {**CHAT, "chat_template_kwargs": {"enable_thinking": False, "effort": "low", "budget": 3}},
        {
            "sampling": {
                "temperature": 0.7,
                "top_p": 0.9,
                "top_k": 20,
                "min_p": 0.05,
                "seed": 7,
                "presence_penalty": -1,
                "frequency_penalty": 0.5,
                "repetition_penalty": 1.1,
                "logit_bias": {"5": -100},
                "min_tokens": 2,
                "ignore_eos": True,
            }
        },
        {"structured_outputs": {"json_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}},
        {"structured_outputs": {"regex": "[0-9]+"}},
        {"structured_outputs": {"choice": ["yes", "no"]}},
        {"structured_outputs": {"grammar": 'root ::= "a"'}},
        {"logprobs": 0, "stop": ["\n\n"], "salt_group": "a", "tests": "assert f(1) == 2"},
        {"deadline_ns": 10**9, "cancel_at_ns": 10**8},
    ],
    ids="+".join,
)
def test_what_a_line_may_say_survives_its_bytes(change: dict[str, Any]) -> None:
    trace = parse(change)
    assert parse_trace(trace.encode()) == trace
    stored = trace.encode().splitlines()[1]
    assert all(f'"{key}":'.encode() in stored for key in change)


@pytest.mark.parametrize("empty", [{"sampling": None, "turn": None, "tools": [], "logprobs": None, "prompt": None}])
def test_saying_nothing_leaves_no_byte(empty: dict[str, Any]) -> None:
    base = line({})
    plain, said = (encode_lines([trace_lines(warmup=0, requests=1)[0], document]) for document in (base, base | empty))
    assert parse_trace(said).encode() == parse_trace(plain).encode()


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"prompt": "x", "messages": CHAT["messages"]}, "line 2: (document)", "exactly one of"),
        ({"prompt": ""}, "line 2: prompt", "at least 1"),
        ({"n": 2}, "line 2: n", "one answer"),
        ({"chat_template": "{{ x }}"}, "line 2: chat_template", "code from the trace"),
        (
            {**CHAT, "chat_template_kwargs": {"chat_template": "{{ x }}"}},
            "line 2: chat_template_kwargs",
            "chat_template is refused",
        ),
        ({"chat_template_kwargs": {"a": True}}, "line 2: (document)", "needs messages"),
        ({**CHAT, "image_url": "http://x"}, "line 2: image_url", "only text"),
        ({"tools": [TOOL]}, "line 2: (document)", "tools needs messages"),
        ({**CHAT, "tool_choice": "auto"}, "line 2: (document)", "needs tools"),
        (
            {**CHAT, "tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "other"}}},
            "line 2: (document)",
            "does not offer",
        ),
        ({"structured_outputs": {}}, "line 2: structured_outputs", "exactly one of"),
        ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "line 2: structured_outputs", "exactly one of"),
        ({"sampling": {"temperature": 3}}, "line 2: sampling.temperature", "less than"),
        ({"sampling": {"n": 2}}, "line 2: sampling.n", "one answer"),
        ({"sampling": {"best": 1}}, "line 2: sampling.best", "unknown"),
        ({"logprobs": 21}, "line 2: logprobs", "less than"),
        ({"cancel_at_ns": 0}, "line 2: cancel_at_ns", "greater than"),
        ({"input_tokens": 3}, "line 2: (document)", "leave it out"),
        ({"prompt": "x", "prompt_text": "x"}, "line 2: (document)", "prompt_text goes with"),
        ({"max_tokens": 10**9}, "line 2: max_tokens", "less than"),
        ({"stop": [""]}, "line 2: stop[0]", "at least 1"),
    ],
)
def test_what_is_refused_is_told_by_line_and_field(change: dict[str, Any], field: str, words: str) -> None:
    told = refused(change)
    assert told[0] == field
    assert words in told[1]


@pytest.mark.parametrize("kind", ["image_url", "input_audio", "audio_url", "video_url"])
def test_media_are_refused_in_words(kind: str) -> None:
    part = {"type": kind, kind: {"url": "http://169.254.169.254/"}}
    field, message = refused({"messages": [{"role": "user", "content": [{"type": "text", "text": "see"}, part]}]})
    assert field == "line 2: messages[0].content"
    assert (kind in message, "only text" in message) == (True, True)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"role": "user"}, "says nothing"),
        ({"role": "user", "content": "x", "tool_call_id": "c"}, "tool_call_id belongs"),
        ({"role": "tool", "content": "x"}, "tool_call_id belongs"),
        (
            {
                "role": "user",
                "content": "x",
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}],
            },
            "belong to an assistant",
        ),
        ({"role": "robot", "content": "x"}, "Input should be"),
    ],
)
def test_a_message_has_to_fit_its_role(message: dict[str, Any], words: str) -> None:
    assert words in refused({"messages": [message]})[1]


def test_which_end_is_planned() -> None:
    ends = [
        parse(change).requests[0].planned_end
        for change in ({}, {"cancel_at_ns": 5}, {"deadline_ns": 5}, {"cancel_at_ns": 5, "deadline_ns": 4},
                       {"cancel_at_ns": 4, "deadline_ns": 5})
    ]  # fmt: skip
    assert ends == [None, "cancel", "deadline", "deadline", "cancel"]


def test_the_warm_up_is_served_whole() -> None:
    header, warmup, *rest = trace_lines(requests=1)
    with pytest.raises(TraceRefused, match="warm-up request must be served whole"):
        parse_trace(encode_lines([header, warmup | {"cancel_at_ns": 5}, *rest]))


def test_minus_zero_is_zero() -> None:
    one, other = ({"sampling": {"temperature": zero, "presence_penalty": zero}} for zero in (0.0, -0.0))
    assert parse(one).digest == parse(other).digest
