"""Chat messages as sources write them, made the trace's own ``Message``: text only, nothing dropped in silence."""

from pydantic import ValidationError

from app.domain.conversation import Message
from app.workloads.readers.fields import objects
from app.workloads.record import Row, RowRefused

USER = "user"
ASSISTANT = "assistant"
CONTENT_FIELD = "turns"
"""How a bad row names what was said, where the source has several fields for it."""


def chat_messages(row: Row, name: str) -> tuple[Message, ...]:
    """The OpenAI messages in a field of the row; null members of a message count as absent."""
    messages = tuple(message(entry, name) for entry in objects(row, name))
    need_user(messages, name)
    return messages


def message(entry: Row, name: str) -> Message:
    """One message; whatever cannot be replayed (media, unknown members) refuses the row."""
    try:
        return Message.model_validate({key: value for key, value in entry.items() if value is not None})
    except ValidationError as error:
        raise RowRefused(name, f"has a message that cannot be replayed ({_places(error)})") from None


def need_user(messages: tuple[Message, ...], name: str) -> None:
    """Refuse a conversation in which nobody asks anything."""
    if not any(entry.role == USER and text_of(entry) for entry in messages):
        raise RowRefused(name, "has no user message with text")


def text_of(entry: Message) -> str:
    """A message's text, its parts joined."""
    if entry.content is None or isinstance(entry.content, str):
        return entry.content or ""
    return "".join(part.text for part in entry.content)


def first_answer(messages: tuple[Message, ...]) -> str | None:
    """The recorded answer to the first user message, where there is one."""
    for number, entry in enumerate(messages):
        if entry.role == USER:
            following = messages[number + 1] if number + 1 < len(messages) else None
            return text_of(following) or None if following and following.role == ASSISTANT else None
    return None


def _places(error: ValidationError) -> str:
    """Which members are wrong, by pydantic's words for it; values are not quoted."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    return ", ".join(dict.fromkeys(_place(tuple(problem["loc"]), problem["msg"]) for problem in problems))[:200]


def _place(where: tuple[int | str, ...], why: str) -> str:
    names = [str(part) for part in where if isinstance(part, str)]
    return f"{names[0]}: {why}" if names else why
