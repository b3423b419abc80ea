"""What every arm is sent: the same bytes at the same offsets."""

import json
from typing import Any

import pytest

from app.domain.errors import TraceRefused
from app.domain.launch import LaunchSpec, launch_spec
from app.domain.manifest import Manifest
from app.domain.trace import Trace, parse_trace
from tests.domain.test_trace_sessions import parse as parse_sessions
from tests.domain.test_trace_sessions import session
from tests.factories import encode_lines, make_manifest, make_trace, trace_lines
from worker.replay.plan import ReplayPlan
from worker.requests import CHAT_PATH, cache_salt, replay_plan

CHAT = [{"role": "user", "content": "hi é"}]
TOOL = {"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}


def server(manifest: Manifest, index: int) -> LaunchSpec:
    return launch_spec(
        manifest,
        manifest.arms[index],
        executable="/r/bin/vllm",
        target_path="/m/target",
        tokenizer_path="/m/target",
        draft_path=None,
        socket_path=f"/tmp/{index}/s",  # noqa: S108  (never opened)
        cache_root=f"/tmp/{index}/cache",  # noqa: S108
        engine_cores="0",
        tree_cores=(0,),
    )


def plan_of(
    trace: Trace, *, arm: int = 0, clients: int | None = None, sampling: dict[str, Any] | None = None
) -> ReplayPlan:
    manifest = make_manifest(sampling=sampling or {"temperature": 0})
    salt = cache_salt(manifest.digest, 0, "tasks", "low")
    return replay_plan(
        trace.of_load("low"), manifest.sampling, salt=salt, server=server(manifest, arm), cores=(1,), clients=clients
    )


def body_of(
    sampling: dict[str, Any] | None = None, *, overrides: dict[str, Any] | None = None, **fields: Any
) -> dict[str, Any]:
    """The decoded body of a request with these fields; ``sampling`` is the manifest's, ``overrides`` the request's."""
    documents = trace_lines(requests=1, warmup=0, **fields)
    documents[1] |= {"sampling": overrides}
    if fields.keys() & {"prompt", "messages", "prompt_hash"}:
        del documents[1]["prompt_token_ids"]
    return json.loads(plan_of(parse_trace(encode_lines(documents)), sampling=sampling).requests[0].body)


def test_every_arm_is_sent_the_same_bytes_at_the_same_offsets() -> None:
    plans = [plan_of(make_trace(), arm=arm) for arm in (0, 1)]
    sent = [[(r.request_id, r.due_ns, r.body) for r in plan.requests] for plan in plans]
    assert len(sent[0]) == 2
    assert sent[0] == sent[1]
    assert plans[0].socket_path != plans[1].socket_path


def test_no_prefix_survives_from_one_load_or_block_to_the_next() -> None:
    salts = {
        cache_salt("e", block, workload, load)
        for block in (0, 1)
        for workload in ("a", "b")
        for load in ("low", "high", "warmup")
    }
    assert len(salts) == 12


def test_a_plain_request_is_sent_as_it_always_was() -> None:
    body = body_of(sampling={"temperature": 0, "seed": 3})
    salt = body.pop("cache_salt")
    assert len(salt) == 32
    assert body == {
        "model": "target",
        "prompt": [1, 2, 3],
        "max_tokens": 4,
        "temperature": 0.0,
        "top_p": 1.0,
        "seed": 3,
        "ignore_eos": False,
        "stop": [],
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
    }


def test_what_the_request_says_goes_before_the_manifest() -> None:
    overrides = {"seed": 8, "top_p": 0.9, "logit_bias": {"5": 1.0}}
    body = body_of({"temperature": 0.5, "seed": 3, "top_k": 9}, overrides=overrides)
    assert (body["temperature"], body["seed"], body["top_p"], body["top_k"]) == (0.5, 8, 0.9, 9)
    assert body["logit_bias"] == {"5": 1.0}


def test_text_goes_to_the_completions_route_as_text() -> None:
    assert body_of(prompt="Say hi", stop=["\n"])["prompt"] == "Say hi"


@pytest.mark.parametrize(
    ("constraint", "sent"),
    [
        ({"json_schema": {"type": "object"}}, {"json": {"type": "object"}}),
        ({"regex": "a+"}, {"regex": "a+"}),
        ({"choice": ["a", "b"]}, {"choice": ["a", "b"]}),
        ({"grammar": 'root ::= "a"'}, {"grammar": 'root ::= "a"'}),
    ],
)
def test_constraints_go_by_the_engines_names(constraint: dict[str, Any], sent: dict[str, Any]) -> None:
    assert body_of(structured_outputs=constraint)["structured_outputs"] == sent


def test_log_probabilities_are_asked_for_in_each_routes_own_way() -> None:
    assert body_of(logprobs=2)["logprobs"] == 2
    chat = body_of(messages=CHAT, logprobs=2)
    assert (chat["logprobs"], chat["top_logprobs"]) == (True, 2)


def test_chat_goes_to_the_chat_route_with_its_messages_last() -> None:
    documents = trace_lines(requests=1, warmup=0, messages=CHAT, tools=[TOOL], tool_choice="required",
                            chat_template_kwargs={"enable_thinking": False})  # fmt: skip
    del documents[1]["prompt_token_ids"]
    (request,) = plan_of(parse_trace(encode_lines(documents))).requests
    body = json.loads(request.body)
    assert request.path == CHAT_PATH
    assert list(body)[-1] == "messages"
    assert (body["messages"], body["tools"], body["tool_choice"]) == (CHAT, [TOOL], "required")
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert "prompt" not in body


def test_a_salt_group_shares_its_cache_with_nobody_else() -> None:
    salts = [body_of(salt_group=group)["cache_salt"] for group in (None, "a", "b")]
    assert len(set(salts)) == 3
    assert body_of(salt_group="a")["cache_salt"] == salts[1]


def test_plans_carry_deadlines_cancels_and_clients() -> None:
    plan = plan_of(make_trace(cancel_at_ns=5, deadline_ns=7, warmup=0), clients=3)
    assert {(r.cancel_at_ns, r.deadline_ns) for r in plan.requests} == {(5, 7)}
    assert plan.clients == 3


def test_a_keyed_hash_is_never_sent() -> None:
    with pytest.raises(TraceRefused, match="keyed hash"):
        body_of(prompt_hash="a" * 64)


def test_own_answers_go_where_the_recorded_ones_stand() -> None:
    plan = plan_of(parse_sessions(session("own"), "own"))
    first, second, third = plan.requests
    assert [r.conversation.follows if r.conversation else "?" for r in plan.requests] == [None, "s-0", "s-1"]
    for turn, before in ((second, first), (third, second)):
        assert turn.conversation
        assert before.conversation
        so_far = before.body[before.conversation.start : -2]
        assert turn.body[turn.conversation.start :].startswith(so_far + b',{"role":"assistant"')
        whole = turn.body[: turn.conversation.start] + so_far + b',{"role":"assistant","content":"OWN"}'
        messages = json.loads(whole + turn.body[turn.conversation.additions :])["messages"]
        recorded = json.loads(turn.body)["messages"]
        assert messages[-2]["content"] == "OWN"
        assert [*messages[:-2], messages[-1]] == [*recorded[:-2], recorded[-1]]


def test_recorded_answers_are_sent_as_they_stand() -> None:
    plan = plan_of(parse_sessions(session("recorded"), "recorded"))
    assert {r.conversation for r in plan.requests} == {None}
    assert [r.due_ns for r in plan.requests] == [0, 10**9, 2 * 10**9]
