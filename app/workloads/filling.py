"""What stands in for the content that a trace of lengths does not have."""

import hashlib
from dataclasses import replace
from itertools import chain
from typing import Protocol

import numpy as np

from app.workloads.record import Record, RowRefused

CONTENT = "content"
PLACEHOLDER = "placeholder"
FIRST_ID = 256
"""Ids below are often special or single bytes."""
VOCABULARY_DEFAULT = 1_000
_WORD = np.dtype("<u4")


class Filling(Protocol):
    """Gives a record that has only lengths a prompt."""

    @property
    def valid(self) -> bool:
        """Whether what is filled in is real text."""
        ...

    def fill(self, record: Record) -> Record:
        """The record with content and the label ``content``. Raises ``RowRefused``."""
        ...


class Placeholders:
    """Meaningless token ids of the recorded length. Rows that share hash ids share them, as a prefix cache sees it."""

    valid = False

    def __init__(self, block_tokens: int, vocabulary_size: int = VOCABULARY_DEFAULT) -> None:
        self._block_tokens = block_tokens
        self._range = max(vocabulary_size - FIRST_ID, 1)

    def fill(self, record: Record) -> Record:
        """The same row always gets the same ids."""
        length = prompt_length(record)
        if record.hash_ids:
            check_blocks(record, self._block_tokens)
            blocks = (self._ids(f"block {hash_id}", self._block_tokens) for hash_id in record.hash_ids)
            ids = list(chain.from_iterable(blocks))[:length]
        else:
            ids = self._ids(f"row {record.line}", length)
        return replace(record, token_ids=tuple(ids), labels={**record.labels, CONTENT: PLACEHOLDER})

    def _ids(self, seed: str, count: int) -> list[int]:
        words = np.frombuffer(hashlib.shake_128(seed.encode()).digest(count * _WORD.itemsize), dtype=_WORD)
        return (FIRST_ID + words % self._range).tolist()


class LengthsOnly:
    """For a look at a source without making anything: rows keep their lengths and get no content."""

    valid = False

    def fill(self, record: Record) -> Record:
        """The record as it is, once its length is known to be usable."""
        prompt_length(record)
        return record


def prompt_length(record: Record) -> int:
    """The recorded length of the prompt, at least 1 token."""
    if not record.input_tokens:
        raise RowRefused("input length", "is 0: nothing was asked")
    return record.input_tokens


def check_blocks(record: Record, block_tokens: int) -> None:
    """Refuse a row whose hash ids cannot be blocks of its prompt."""
    needed = -(-prompt_length(record) // block_tokens)
    if len(record.hash_ids) != needed:
        raise RowRefused(
            "hash_ids", f"do not fit the input length: blocks of {block_tokens} tokens (see --block-tokens)"
        )
