"""From a trace to the exact bytes that every arm is sent; nothing in them depends on the arm."""

import json
from typing import Any

from app.domain.canonical import digest
from app.domain.conversation import Message
from app.domain.errors import TraceRefused
from app.domain.launch import LaunchSpec
from app.domain.manifest import Sampling
from app.domain.trace import TraceRequest
from app.domain.vocabulary import NS_PER_S, WARMUP
from worker.replay.plan import SPIN_NS, Conversation, ReplayPlan, ReplayRequest

COMPLETIONS_PATH = "/v1/completions"
CHAT_PATH = "/v1/chat/completions"
DRAIN_TIMEOUT_NS = 120 * NS_PER_S
LEAD_IN_NS = NS_PER_S // 4


def replay_plan(
    requests: tuple[TraceRequest, ...],
    sampling: Sampling,
    *,
    salt: str,
    server: LaunchSpec,
    cores: tuple[int, ...],
    spin_ns: int = SPIN_NS,
    clients: int | None = None,
) -> ReplayPlan:
    """The replay of one load point's requests (or of the warm-up's) against the server of ``server``.

    With ``clients`` the loop is closed. Raises ``TraceRefused`` where a prompt's text is not here.
    """
    by_id = {r.request_id: r for r in requests}
    return ReplayPlan(
        socket_path=server.socket_path,
        host=None,
        port=None,
        path=COMPLETIONS_PATH,
        requests=tuple(_replayed(r, by_id, server.served_model_name, sampling, salt) for r in requests),
        drain_timeout_ns=DRAIN_TIMEOUT_NS,
        cores=cores,
        lead_in_ns=LEAD_IN_NS,
        clients=clients,
        spin_ns=spin_ns,
    )


def completion_body(request: TraceRequest, model: str, sampling: Sampling, salt: str) -> bytes:
    """The JSON body of a request to the completions route."""
    if request.prompt_hash is not None:
        message = f"request {request.request_id}: its prompt is a keyed hash, and its text is not here"
        raise TraceRefused.of("prompt_hash", message, "give the worker the file with the prompts' text")
    prompt = list(request.prompt_token_ids) if request.prompt is None else request.prompt
    return _json({"model": model, "prompt": prompt, **_parameters(request, sampling, salt)})


def chat_body(request: TraceRequest, model: str, sampling: Sampling, salt: str) -> bytes:
    """The JSON body of a request to the chat route; the messages are its last member."""
    return _chat_head(request, model, sampling, salt) + _messages(request.messages) + b"]}"


def cache_salt(experiment_id: str, block: int, workload: str, load: str = WARMUP, attempt: int = 1) -> str:
    """The same in every arm of a block, fresh for each load point: no prefix survives from one run to the next."""
    repeated = f"/{attempt}" if attempt > 1 else ""
    return digest(f"{experiment_id}/{block}/{workload}/{load}{repeated}".encode())[:32]


def _replayed(
    request: TraceRequest, by_id: dict[str, TraceRequest], model: str, sampling: Sampling, salt: str
) -> ReplayRequest:
    chats = bool(request.messages)
    body = (chat_body if chats else completion_body)(request, model, sampling, salt)
    return ReplayRequest(
        request_id=request.request_id,
        due_ns=request.due_ns,
        body=body,
        deadline_ns=request.deadline_ns,
        cancel_at_ns=request.cancel_at_ns,
        path=CHAT_PATH if chats else None,
        conversation=_conversation(request, by_id, len(_chat_head(request, model, sampling, salt)) if chats else 0),
    )


def _conversation(request: TraceRequest, by_id: dict[str, TraceRequest], start: int) -> Conversation | None:
    """Where a closed session's own answer goes; ``None`` for every other request."""
    turn = request.turn
    if turn is None or turn.answer == "recorded":
        return None
    if turn.previous is None:
        return Conversation(start)
    answered = len(by_id[turn.previous].messages) + 1
    recorded = len(_messages(request.messages[:answered]))
    return Conversation(start, turn.previous, start + recorded, turn.think_ns)


def _chat_head(request: TraceRequest, model: str, sampling: Sampling, salt: str) -> bytes:
    fields = {"model": model, **_parameters(request, sampling, salt)}
    if request.tools:
        fields["tools"] = [tool.model_dump(mode="json", exclude_none=True) for tool in request.tools]
    choice = request.tool_choice
    if choice is not None:
        fields["tool_choice"] = choice if isinstance(choice, str) else choice.model_dump(mode="json")
    if request.chat_template_kwargs is not None:
        fields["chat_template_kwargs"] = request.chat_template_kwargs
    return _json(fields)[:-1] + b',"messages":['


def _messages(messages: tuple[Message, ...]) -> bytes:
    """As they stand inside the list."""
    return b",".join(_json(message.model_dump(mode="json", exclude_defaults=True)) for message in messages)


def _parameters(request: TraceRequest, sampling: Sampling, salt: str) -> dict[str, Any]:
    """What both routes take alike; what the request says itself goes before the manifest."""
    chosen = sampling.model_dump(mode="json", exclude_none=True)
    if request.sampling is not None:
        chosen |= request.sampling.model_dump(mode="json", exclude_none=True)
    fields: dict[str, Any] = {
        "max_tokens": request.max_tokens,
        **chosen,
        "stop": list(request.stop),
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
        "cache_salt": salt if request.salt_group is None else digest(f"{salt}/{request.salt_group}".encode())[:32],
    }
    if request.structured_outputs is not None:
        constraint = request.structured_outputs.model_dump(mode="json", exclude_none=True)
        fields["structured_outputs"] = {_WIRE_NAMES.get(kind, kind): value for kind, value in constraint.items()}
    if request.logprobs is not None:
        chats = bool(request.messages)
        fields |= {"logprobs": True, "top_logprobs": request.logprobs} if chats else {"logprobs": request.logprobs}
    return fields


_WIRE_NAMES = {"json_schema": "json"}


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
