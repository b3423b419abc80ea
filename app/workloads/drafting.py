"""From a neutral record to the requests of a trace, complete but for their load point and the time they are due."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from app.domain.manifest import field_problems
from app.domain.trace_request import TraceRequest
from app.domain.vocabulary import WARMUP
from app.workloads.asking import left_out, request_fields
from app.workloads.choices import Turns
from app.workloads.filling import Filling, prompt_length
from app.workloads.readers.conversations import USER, text_of
from app.workloads.record import Record, Row, RowRefused
from app.workloads.strata import NO_TASK, TASK, infer
from app.workloads.tokens import Tokens
from app.workloads.turns import TurnMessages, turns_of

MAX_TOKENS_DEFAULT = 256
STAND_IN_LOAD = WARMUP
"""The load point, and 0 the offset, of every draft until it is dealt."""
NO_CONTENT = "0" * 64
"""Stands for the prompt where a source is only looked at."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What the user decides about every request."""

    turns: Turns = Turns.FIRST
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Declared for all rows; they win over the source's and over what is inferred."""
    max_tokens: int = MAX_TOKENS_DEFAULT
    """For rows whose source says nothing of the answer's length."""
    think_ns: int = 0
    """Between the turns of a session, where the source says nothing."""


@dataclass(frozen=True, slots=True)
class Draft:
    """One row's requests, in the order of their turns."""

    requests: tuple[TraceRequest, ...]
    remarks: tuple[str, ...] = ()
    """What was left out of the row or supplied by default; each is counted."""
    valid: bool = True
    """Whether the content is real text."""


@dataclass(frozen=True, slots=True)
class Drafter:
    """Makes drafts of records. ``tokens`` counts lengths where a tokenizer was named."""

    choices: Choices
    filling: Filling
    tokens: Tokens | None = None

    def draft(self, record: Record) -> Draft:
        """The row's requests. Raises ``RowRefused`` where it cannot be replayed as it was."""
        filled = record if record.has_content else self.filling.fill(record)
        turns, rest = turns_of(filled, self.choices.turns) if filled.conversation else (_single(filled), 0)
        requests = tuple(self._request(filled, turn, number, len(turns)) for number, turn in enumerate(turns))
        valid = record.has_content or self.filling.valid
        return Draft(requests, tuple(self._remarks(filled, rest)), valid)

    def _request(self, record: Record, turn: TurnMessages, number: int, turns: int) -> TraceRequest:
        document = self._prompt(record, turn) | request_fields(record.asked) | self._link(record, number, turns)
        document |= {
            "request_id": _request_id(record.line, number),
            "load": STAND_IN_LOAD,
            "due_ns": 0,
            "max_tokens": self._max_tokens(record),
            "reference": turn.reference,
            "strata": {TASK: NO_TASK},
        }
        request = _validated(document)
        labels = infer(request, _text(request), {**record.labels, **self.choices.labels})
        return request.model_copy(update={"strata": labels})

    def _prompt(self, record: Record, turn: TurnMessages) -> dict[str, Any]:
        if turn.messages:
            count = self.tokens.count_messages(turn.messages) if self.tokens else record.input_tokens
            return {"messages": turn.messages, "input_tokens": count or None}
        if record.prompt is not None:
            count = self.tokens.count(record.prompt) if self.tokens else record.input_tokens
            return {"prompt": record.prompt, "input_tokens": count or None}
        if record.token_ids:
            return {"prompt_token_ids": record.token_ids}
        return {"prompt_hash": NO_CONTENT, "input_tokens": prompt_length(record)}

    def _max_tokens(self, record: Record) -> int:
        if record.output_tokens == 0:
            raise RowRefused("output length", "is 0: the source recorded no answer (a failed request)")
        return record.max_tokens or record.output_tokens or self.choices.max_tokens

    def _link(self, record: Record, number: int, turns: int) -> Row:
        if turns == 1:
            return {}
        previous = _request_id(record.line, number - 1) if number else None
        think_ns = self.choices.think_ns if number else 0
        answer = self.choices.turns.value
        link: Row = {"session": f"s{record.line}", "index": number, "answer": answer, "think_ns": think_ns}
        return {"turn": link | ({"previous": previous} if previous else {})}

    def _remarks(self, record: Record, turns_left_out: int) -> Iterator[str]:
        if turns_left_out:
            yield "later turns left out (--turns first)"
        if record.max_tokens is None and record.output_tokens is None:
            yield f"no answer length in the source: max_tokens {self.choices.max_tokens} by --max-tokens"
        for name in left_out(record.asked):
            yield f"{name} is not replayed"


def _single(record: Record) -> tuple[TurnMessages, ...]:
    return (TurnMessages(record.messages, record.reference),)


def _request_id(line: int, turn: int) -> str:
    """The source's line is the request's name, so that every request leads back to its row."""
    return f"r{line}.{turn}" if turn else f"r{line}"


def _text(request: TraceRequest) -> str | None:
    if request.messages:
        return "\n".join(text_of(message) for message in request.messages if message.role == USER)
    return request.prompt


def _validated(document: dict[str, Any]) -> TraceRequest:
    try:
        return TraceRequest.model_validate(document)
    except ValidationError as error:
        problem = field_problems(error)[0]
        raise RowRefused(problem.field, problem.message[:200]) from None
