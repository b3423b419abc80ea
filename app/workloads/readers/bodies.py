"""A recorded OpenAI request body: what it asked, and how."""

from typing import TypedDict

from pydantic import JsonValue

from app.domain.conversation import Message
from app.workloads.readers.conversations import chat_messages
from app.workloads.readers.fields import optional_count
from app.workloads.record import Row, RowRefused

ASKED_FIELDS = (
    "temperature", "top_p", "top_k", "min_p", "seed", "stop", "stop_token_ids", "presence_penalty", "frequency_penalty",
    "repetition_penalty", "ignore_eos", "min_tokens", "logprobs", "top_logprobs", "prompt_logprobs", "logit_bias", "n",
    "best_of", "response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice",
    "guided_grammar", "tools", "tool_choice", "parallel_tool_calls", "chat_template_kwargs",
)  # fmt: skip
"""What decides how an answer is made. Whatever else a body holds (model, user, stream …) stays in the row only."""


class Body(TypedDict, total=False):
    """The part of a record that a body can say."""

    prompt: str
    messages: tuple[Message, ...]
    token_ids: tuple[int, ...]
    max_tokens: int | None
    asked: dict[str, JsonValue]


def parse_body(body: Row) -> Body:
    """The record fields of a chat or completions body. Raises ``RowRefused``."""
    if body.get("chat_template") is not None:
        raise RowRefused("chat_template", "is not replayed: a template in a request would be code from the trace")
    said = Body(
        max_tokens=optional_count(body, "max_completion_tokens", least=1)
        or optional_count(body, "max_tokens", least=1),
        asked={name: body[name] for name in ASKED_FIELDS if body.get(name) is not None},
    )
    if "messages" in body:
        said["messages"] = chat_messages(body, "messages")
        return said
    return _with_prompt(said, body.get("prompt"))


def _with_prompt(said: Body, prompt: JsonValue) -> Body:
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str) and prompt:
        said["prompt"] = prompt
    elif isinstance(prompt, list) and prompt:
        said["token_ids"] = tuple(n for n in prompt if isinstance(n, int) and not isinstance(n, bool) and n >= 0)
        if len(said["token_ids"]) < len(prompt):
            raise RowRefused("prompt", "is a list of several prompts; give each a row")
    else:
        raise RowRefused("messages", "is missing, and there is no prompt either")
    return said
