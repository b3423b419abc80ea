"""Whether the turns of a trace's sessions follow one another, checked line by line without keeping their text."""

from collections.abc import Iterator
from dataclasses import dataclass

from app.domain.canonical import canonical_json, digest
from app.domain.conversation import Message
from app.domain.trace_request import TraceRequest, TurnLink


@dataclass(frozen=True, slots=True)
class _LastTurn:
    """What the next turn of a session has to fit to."""

    request_id: str
    load: str
    link: TurnLink
    due_ns: int
    messages: int
    conversation: str
    """Digest of the turn's messages."""


class SessionCheck:
    """Takes requests in file order; remembers one small record a session."""

    def __init__(self) -> None:
        self._last: dict[str, _LastTurn] = {}

    def problems(self, request: TraceRequest) -> Iterator[tuple[str, str]]:
        """(field, message) of each way in which a turn does not continue its session."""
        link = request.turn
        if link is None:
            return
        before = self._last.get(link.session)
        self._last[link.session] = _last_turn(request, link)
        if before is None:
            if link.index:
                yield "turn.index", f"turn {link.index} is the first of session {link.session} in the file"
            return
        yield from _breaks(before, request, link)


def _breaks(before: _LastTurn, request: TraceRequest, link: TurnLink) -> Iterator[tuple[str, str]]:
    if link.index != before.link.index + 1:
        yield "turn.index", f"turn {link.index} of session {link.session} comes after turn {before.link.index}"
    elif link.previous != before.request_id:
        yield "turn.previous", f"{link.previous} is not the turn before, which is {before.request_id}"
    if request.load != before.load:
        yield "load", f"session {link.session} goes from load {before.load} to {request.load}"
    if link.answer != before.link.answer:
        yield "turn.answer", f"session {link.session} has both recorded and own answers"
    if request.due_ns < before.due_ns:
        yield "due_ns", f"due before turn {before.link.index} of its session"
    if link.answer == "own":
        yield from _own_answer_breaks(before, request.messages)


def _own_answer_breaks(before: _LastTurn, messages: tuple[Message, ...]) -> Iterator[tuple[str, str]]:
    """An arm's own answer can only take the place of the one recorded answer after the turn before."""
    count = before.messages
    if _digest(messages[:count]) != before.conversation:
        yield "messages", "they do not begin with the messages of the turn before"
    elif len(messages) < count + 2 or messages[count].role != "assistant":
        yield "messages", "after the turn before there must be its recorded answer and something new"
    elif any(message.role == "tool" for message in messages[count + 1 :]):
        yield "messages", "a recorded tool result cannot follow an arm's own answer; use answer: recorded"


def _last_turn(request: TraceRequest, link: TurnLink) -> _LastTurn:
    conversation = _digest(request.messages) if link.answer == "own" else ""
    return _LastTurn(request.request_id, request.load, link, request.due_ns, len(request.messages), conversation)


def _digest(messages: tuple[Message, ...]) -> str:
    return digest(canonical_json([m.model_dump(mode="json", exclude_defaults=True) for m in messages]))
