"""A recorded conversation as the requests that a client would send, one a turn."""

from collections.abc import Iterator
from dataclasses import dataclass

from app.domain.conversation import Message
from app.workloads.choices import Turns
from app.workloads.readers.conversations import ASSISTANT, CONTENT_FIELD, USER, text_of
from app.workloads.record import Record, RowRefused


@dataclass(frozen=True, slots=True)
class TurnMessages:
    """One turn: what is sent, and the answer that was recorded or is known to be right."""

    messages: tuple[Message, ...]
    reference: str | None


UNRECORDED = Message(role="assistant", content="")
"""Stands where the arm's own answer will go and the source has none."""


def turns_of(record: Record, choice: Turns) -> tuple[tuple[TurnMessages, ...], int]:
    """The turns that become requests, and how many are left out. Raises ``RowRefused``."""
    complete = _with_answers(record.messages)
    asked = [place for place, message in enumerate(complete) if message.role == USER and text_of(message)]
    wanted = asked[:1] if choice is Turns.FIRST else asked
    turns = tuple(_turn(record, complete, place, first=not number) for number, place in enumerate(wanted))
    if choice is Turns.RECORDED and any(message is UNRECORDED for turn in turns for message in turn.messages):
        raise RowRefused(CONTENT_FIELD, "an answer between two turns is not recorded, so later turns cannot be sent")
    return turns, len(asked) - len(wanted)


def _turn(record: Record, complete: tuple[Message, ...], place: int, *, first: bool) -> TurnMessages:
    answer = complete[place + 1] if place + 1 < len(complete) else None
    recorded = text_of(answer) if answer and answer.role == ASSISTANT else ""
    return TurnMessages(complete[: place + 1], recorded or (record.reference if first else None))


def _with_answers(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    return tuple(_filled(messages))


def _filled(messages: tuple[Message, ...]) -> Iterator[Message]:
    """The conversation with a place for every answer that was not recorded."""
    awaited = False
    for message in messages:
        if message.role == USER:
            if awaited:
                yield UNRECORDED
            awaited = bool(text_of(message))
        elif message.role == ASSISTANT:
            awaited = False
        yield message
