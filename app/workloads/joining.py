"""Joins a trace of lengths with real prompts: the timing stays the trace's, the content is real.

``Whole`` takes a prompt of about the recorded length, each only once. ``Blocks`` cuts running text of the corpus into
blocks, one for each hash id, so that rows which shared a prefix in the recording share real text, token by token.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from tempfile import TemporaryFile

import numpy as np

from app.workloads.corpus import Corpus, length_bucket
from app.workloads.filling import CONTENT, check_blocks, prompt_length
from app.workloads.record import Record, RowRefused
from app.workloads.tokens import Tokens

WHOLE = "whole-prompts"
BLOCKS = "cut-text"
_WORD = np.dtype("<u4")


class Whole:
    """Fills a record with an unused prompt of the same length bucket, in the corpus' order."""

    valid = True

    def __init__(self, corpus: Corpus, *, reuse: bool) -> None:
        self._corpus = corpus
        self._reuse = reuse
        self._used: defaultdict[int, int] = defaultdict(int)
        self.reused = 0

    def fill(self, record: Record) -> Record:
        """The record with the prompt's content, reference and labels. Raises ``RowRefused`` where no prompt is left."""
        bucket = length_bucket(prompt_length(record))
        prompt = self._corpus.at(self._next(bucket))
        labels = {**record.labels, **prompt.labels, CONTENT: WHOLE}
        return replace(
            record,
            prompt=prompt.text,
            messages=prompt.messages,
            reference=prompt.reference,
            input_tokens=None,
            labels=labels,
        )

    def _next(self, bucket: int) -> int:
        places = self._corpus.places(bucket)
        used = self._used[bucket]
        if not places:
            raise RowRefused("input length", "has no prompt of about the same length in the corpus")
        if used >= len(places) and not self._reuse:
            raise RowRefused("input length", "has no prompt of about the same length left unused in the corpus")
        self._used[bucket] += 1
        self.reused += used >= len(places)
        return places[used % len(places)]


class Blocks:
    """Fills a record with the corpus' running text, cut to the token."""

    valid = True

    def __init__(self, corpus: Corpus, tokens: Tokens, block_tokens: int, *, reuse: bool) -> None:
        self._file = TemporaryFile("w+b")  # noqa: SIM115  (lives as long as the join)
        self._block_tokens = block_tokens
        self._reuse = reuse
        self._position = 0
        self._again = False
        self._starts: dict[int, int] = {}
        self.reused = 0
        """Tokens taken again after the corpus was used up."""
        self._size = self._write(corpus, tokens)

    def fill(self, record: Record) -> Record:
        """The record with token ids of exactly its length. Raises ``RowRefused`` where the corpus is used up."""
        length = prompt_length(record)
        if record.hash_ids:
            check_blocks(record, self._block_tokens)
            ids = [i for start in self._block_starts(record) for i in self._read(start, self._block_tokens)][:length]
        else:
            ids = self._read(self._advance(length), length)
        return replace(record, token_ids=tuple(ids), labels={**record.labels, CONTENT: BLOCKS})

    def _block_starts(self, record: Record) -> Iterator[int]:
        for hash_id in record.hash_ids:
            if hash_id not in self._starts:
                self._starts[hash_id] = self._advance(self._block_tokens)
            yield self._starts[hash_id]

    def _advance(self, count: int) -> int:
        """Where the next ``count`` unused tokens begin; with reuse, from the corpus' beginning again."""
        if self._position + count > self._size:
            if not self._reuse or count > self._size:
                raise RowRefused("input length", "is more text than the corpus has left")
            self._position = 0
            self._again = True
        start = self._position
        self._position += count
        self.reused += count if self._again else 0
        return start

    def _read(self, start: int, count: int) -> list[int]:
        self._file.seek(start * _WORD.itemsize)
        return np.frombuffer(self._file.read(count * _WORD.itemsize), dtype=_WORD).tolist()

    def _write(self, corpus: Corpus, tokens: Tokens) -> int:
        size = 0
        for prompt in corpus:
            for text in prompt.texts():
                ids = tokens.ids(text)
                self._file.write(np.array(ids, dtype=_WORD).tobytes())
                size += len(ids)
        return size
