"""Real prompts on disk, found by their length in tokens; in memory stays 16 bytes a prompt."""

import json
import math
from array import array
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

from app.domain.conversation import Message
from app.domain.errors import DomainError
from app.workloads.choices import Turns
from app.workloads.readers.format import Format
from app.workloads.record import BadRow, Record, Row
from app.workloads.tokens import Tokens
from app.workloads.turns import turns_of

TOLERANCE = 0.1
"""Two lengths in one bucket differ by at most so much, as a share of the shorter."""
EXACT_TO = 16
"""Up to this length a bucket is one length."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt of a corpus: a text or the messages of a first turn."""

    text: str | None
    messages: tuple[Message, ...]
    reference: str | None
    labels: dict[str, str]

    def tokens(self, tokens: Tokens) -> int:
        """Its length."""
        return tokens.count(self.text) if self.text is not None else tokens.count_messages(self.messages)

    def texts(self) -> list[str]:
        """Its texts, in order."""
        return (
            [self.text] if self.text is not None else [m.content for m in self.messages if isinstance(m.content, str)]
        )


def length_bucket(length: int) -> int:
    """The number of the bucket of a length (1 or more)."""
    if length <= EXACT_TO:
        return length
    return EXACT_TO + 1 + int(math.log(length / (EXACT_TO + 1)) / math.log1p(TOLERANCE))


class Corpus:
    """All prompts of a file by length. Of a conversation it is the first turn; rows without a prompt are left out."""

    def __init__(self, source: BinaryIO, source_format: Format, tokens: Tokens) -> None:
        self._file = TemporaryFile("w+b")  # noqa: SIM115  (lives as long as the corpus)
        self._places: defaultdict[int, array[int]] = defaultdict(lambda: array("q"))
        self.prompts = 0
        self.skipped = 0
        """Rows of the corpus that were no prompt."""
        for item in source_format.read(source):
            if isinstance(item, Record):
                self._add(item, tokens)
            elif isinstance(item, BadRow):
                self.skipped += item.rows
        if not self.prompts:
            raise DomainError.of("corpus", "it has no prompt", "give a file with texts, such as ShareGPT conversations")

    def places(self, bucket: int) -> "array[int]":
        """Where the prompts of a length bucket stand, in the corpus' order."""
        return self._places.get(bucket, array("q"))

    def at(self, place: int) -> Prompt:
        """The prompt at a place."""
        self._file.seek(place)
        document: Row = json.loads(self._file.readline())
        return _decoded(document)

    def __iter__(self) -> Iterator[Prompt]:
        """All prompts, in the corpus' order."""
        position = 0
        while True:
            self._file.seek(position)
            line = self._file.readline()
            position = self._file.tell()
            if not line:
                return
            yield _decoded(json.loads(line))

    def _add(self, record: Record, tokens: Tokens) -> None:
        prompt = _prompt(record) if record.prompt or record.messages else None
        length = prompt.tokens(tokens) if prompt else 0
        if prompt is None or not length:
            self.skipped += 1
            return
        self._places[length_bucket(length)].append(self._file.tell())
        self._file.write(_encoded(prompt))
        self.prompts += 1


def open_corpus(path: Path, source_format: Format, tokens: Tokens) -> Corpus:
    """Read a corpus file once."""
    with path.open("rb") as source:
        return Corpus(source, source_format, tokens)


def _prompt(record: Record) -> Prompt:
    if not record.conversation:
        return Prompt(record.prompt, record.messages, record.reference, dict(record.labels))
    (turn,), _ = turns_of(record, Turns.FIRST)
    return Prompt(None, turn.messages, turn.reference, dict(record.labels))


def _encoded(prompt: Prompt) -> bytes:
    messages = [message.model_dump(mode="json", exclude_defaults=True) for message in prompt.messages]
    document = {"text": prompt.text, "messages": messages, "reference": prompt.reference, "labels": prompt.labels}
    return json.dumps(document).encode() + b"\n"


def _decoded(document: Row) -> Prompt:
    messages = document["messages"] if isinstance(document["messages"], list) else []
    labels = document["labels"] if isinstance(document["labels"], dict) else {}
    text, reference = document["text"], document["reference"]
    return Prompt(
        text if isinstance(text, str) else None,
        tuple(Message.model_validate(message) for message in messages),
        reference if isinstance(reference, str) else None,
        {name: str(value) for name, value in labels.items()},
    )
