"""Formats that have one JSON document a run: several as a zip that is written while it is read, one as itself."""

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from app.domain.evidence import RunEvidence
from app.interop.exports.drain import Drain
from app.interop.exports.outline import Outline
from app.interop.exports.rows import exact

Document = dict[str, Any]
Describe = Callable[[Outline, RunEvidence], Document]

_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The same evidence gives the same bytes."""
NOT_COUNTED: Final = "not-counted/"


class ZipEncoder:
    """``block-0/ngram-k4/tasks/low/attempt-1.json`` for each run; those that do not count lie in a folder apart."""

    def __init__(self, outline: Outline, describe: Describe) -> None:
        self._outline, self._describe = outline, describe
        self._drain = Drain()
        self._zip = zipfile.ZipFile(self._drain, "w", zipfile.ZIP_DEFLATED)

    def begin(self) -> bytes:
        return self._drain.take()

    def add(self, run: RunEvidence) -> Iterator[bytes]:
        entry = zipfile.ZipInfo(self._name(run), _EPOCH)
        entry.compress_type = zipfile.ZIP_DEFLATED
        self._zip.writestr(entry, as_json(self._describe(self._outline, held(run))))
        yield self._drain.take()

    def end(self) -> bytes:
        self._zip.close()
        return self._drain.take()

    def _name(self, run: RunEvidence) -> str:
        folder = "" if self._outline.counts(run) else NOT_COUNTED
        return f"{folder}block-{run.block}/{run.arm}/{run.workload}/{run.load}/attempt-{run.attempt}.json"


class DocumentEncoder:
    """The document of one run, bare."""

    def __init__(self, outline: Outline, describe: Describe) -> None:
        self._outline, self._describe = outline, describe

    def begin(self) -> bytes:
        return b""

    def add(self, run: RunEvidence) -> Iterator[bytes]:
        yield as_json(self._describe(self._outline, held(run)))

    def end(self) -> bytes:
        return b""


def held(run: RunEvidence) -> RunEvidence:
    """The run with its observations in memory, since a document looks at them several times."""
    return run.model_copy(update={"observations": tuple(map(exact, run.observations))})


def as_json(document: Mapping[str, Any]) -> bytes:
    """UTF-8 JSON in the document's own order of keys."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(", ", ": ")).encode() + b"\n"
