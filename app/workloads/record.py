"""One row of somebody's workload, in neutral words: what every reader yields and everything else here takes.

A field is None or empty where the source does not say it; nothing is guessed while reading.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from app.domain.conversation import Message

Row = dict[str, JsonValue]
"""A source row as parsed, every field of it: what a writer gives back. CSV cells stay text."""


@dataclass(frozen=True, slots=True)
class Record:
    """One source row. Two user messages in a row mean: the answer between them was not recorded."""

    line: int
    """1-based line of the source, or row number in Parquet."""
    row: Row
    arrival_ns: int | None = None
    """Nanoseconds on the source's own clock, whose zero may be any moment."""
    prompt: str | None = None
    messages: tuple[Message, ...] = ()
    token_ids: tuple[int, ...] = ()
    input_tokens: int | None = None
    output_tokens: int | None = None
    """Length of the recorded answer; 0 where the source recorded a request without one."""
    max_tokens: int | None = None
    """What the source's client asked for, where it did."""
    reference: str | None = None
    """A right or recorded answer; never sent."""
    asked: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Request fields in the OpenAI names (temperature, stop, response_format …), as the source has them."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Dimension → label as the source states it, such as ``{"task": "summarization"}``."""
    conversation: bool = False
    """Whether ``messages`` is a whole conversation, answers included, rather than what one request sent."""
    hash_ids: tuple[int, ...] = ()
    """One id per block of the prompt; equal ids at the start of two rows are a shared prefix."""
    session: str | None = None
    think_ns: int | None = None
    """Pause between the previous answer of the session and this request."""

    @property
    def has_content(self) -> bool:
        """Whether the row says what was asked, rather than only how long it was."""
        return self.prompt is not None or bool(self.messages) or bool(self.token_ids)


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that is not kept. ``reason`` quotes no values of the row: prompts stay out of reports and logs."""

    line: int
    field: str
    reason: str
    line_last: int | None = None
    """The last line of the damage, where it spans several."""
    rows: int = 1
    """How many rows of the source are lost with it, as far as the source tells."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something about the file that costs no row, such as a blank line."""

    line: int
    text: str


Item = Record | BadRow | Note


class RowRefused(Exception):
    """Raised while a row is parsed; becomes a ``BadRow``. ``field`` is the source's own name for it."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason
