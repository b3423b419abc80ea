"""Read a trace line by line: check each, hash its canonical bytes, keep nothing but counts.

Every other reader of traces is built on this, so that a file is accepted or refused alike however it comes.
"""

import hashlib
from array import array
from collections.abc import Iterable, Iterator

import numpy as np
from pydantic import ValidationError

from app.domain.canonical import canonical_json
from app.domain.errors import FieldProblem, TraceRefused
from app.domain.refusals import field_problems
from app.domain.strict_json import Flaw, loads_strict
from app.domain.trace_header import TraceHeader
from app.domain.trace_request import TraceRequest
from app.domain.trace_sessions import SessionCheck
from app.domain.trace_summary import Tally, TraceSummary
from app.domain.vocabulary import WARMUP

LINE_BYTES_MAX = 1 << 20
PROBLEMS_MAX = 50
_OTHER_PAGE, _PAGE = "docs/manifest.md", "docs/trace.md"
_ON_PURPOSE = {
    "n": ("one answer is asked for", "leave n out, or give each answer a request of its own"),
    "best_of": ("one answer is asked for", "leave it out"),
    "chat_template": ("a template inside a request would be code from the trace", "use the model's own template"),
    "image_url": ("only text is taken", "leave media out"),
    "audio_url": ("only text is taken", "leave media out"),
    "stream": ("every answer is streamed", "leave it out"),
}
"""Keys that request bodies have and a trace refuses, each with its reason."""


def split_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a file that comes in chunks, without their newlines. A line may hold ``LINE_BYTES_MAX`` bytes.

    What is longer is cut short, far enough beyond the limit to be refused by its number.
    """
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
        rest = rest[: LINE_BYTES_MAX + 1]
    if rest:
        yield rest


def canonical_line(document: TraceHeader | TraceRequest) -> bytes:
    """The bytes that are stored, hashed and replayed, without the newline; fields that say nothing are left out."""
    if isinstance(document, TraceHeader):
        return canonical_json(document.model_dump(mode="json", exclude_none=True))
    return canonical_json(document.model_dump(mode="json", exclude_defaults=True))


class TraceScan:
    """Feed it a trace's lines in order, then ask for the ``summary``.

    Problems are collected and raised together: at the end, or once there are ``PROBLEMS_MAX``.
    """

    def __init__(self) -> None:
        self.header: TraceHeader | None = None
        self.canonical = b""
        """The canonical bytes of the line read last, its newline included; empty where it had a problem."""
        self._line = 0
        self._sha256 = hashlib.sha256()
        self._size = 0
        self._tally: Tally | None = None
        self._sessions = SessionCheck()
        self._ids = array("Q")
        self._problems: list[FieldProblem] = []

    def take(self, line: bytes) -> TraceHeader | TraceRequest | None:
        """Read the next line; ``None`` where it has a problem."""
        self._line += 1
        document = self._parse(line)
        if isinstance(document, TraceHeader):
            self.header, self._tally = document, Tally(document)
        elif document is not None and self._tally is not None and self.header is not None:
            self._count(document, self._tally, self.header)
        self.canonical = b"" if document is None else canonical_line(document) + b"\n"
        self._sha256.update(self.canonical)
        self._size += len(self.canonical)
        return document

    def summary(self) -> TraceSummary:
        """What was read. Raises ``TraceRefused`` naming the line of each problem."""
        if self._line <= 1 and not self._problems:
            raise TraceRefused.of("trace", "the workload is empty", "give a header line and at least one request")
        if self._tally is not None and self.header is not None and not self._problems:
            self._problems.extend(_miscounts(self.header, self._tally))
            self._problems.extend(_repeated_ids(self._ids))
        if self._problems or self._tally is None:
            raise TraceRefused(*self._problems)
        return self._tally.summary(digest=self._sha256.hexdigest(), size=self._size)

    def _count(self, request: TraceRequest, tally: Tally, header: TraceHeader) -> None:
        tally.add(request)
        self._ids.append(int.from_bytes(hashlib.blake2b(request.request_id.encode(), digest_size=8).digest()))
        for field, message in (*_strangers(request, header), *self._sessions.problems(request)):
            self._refuse(field, message, "correct the line, or the header")

    def _parse(self, line: bytes) -> TraceHeader | TraceRequest | None:
        if len(line) > LINE_BYTES_MAX:
            self._refuse("", f"longer than {LINE_BYTES_MAX} bytes", "split or drop the request")
            return None
        try:
            decoded = loads_strict(line)
            return (TraceHeader if self._line == 1 else TraceRequest).model_validate(decoded)
        except ValidationError as error:
            for problem in field_problems(error, _reason):
                self._refuse(problem.field, problem.message, problem.remedy.replace(_OTHER_PAGE, _PAGE))
        except Flaw as flaw:
            self._refuse("", str(flaw)[:300], "each line must be one JSON object, each key once")
        return None

    def _refuse(self, field: str, message: str, remedy: str) -> None:
        place = f"line {self._line}: {field}" if field else f"line {self._line}"
        self._problems.append(FieldProblem(place, message, remedy))
        if len(self._problems) >= PROBLEMS_MAX:
            raise TraceRefused(*self._problems)


def summarise(lines: Iterable[bytes]) -> TraceSummary:
    """Read a whole trace for its summary alone; raises ``TraceRefused``."""
    scan = TraceScan()
    for line in lines:
        scan.take(line)
    return scan.summary()


def _reason(key: str, parents: tuple[str, ...]) -> tuple[str, str] | None:
    """Why a key that requests elsewhere have is refused here."""
    del parents
    return _ON_PURPOSE.get(key)


def _strangers(request: TraceRequest, header: TraceHeader) -> Iterator[tuple[str, str]]:
    load = header.load(request.load)
    if load is None and request.load != WARMUP:
        yield "load", f"load {request.load} is not in the header"
    if load is not None and load.clients is not None and request.due_ns:
        yield "due_ns", f"load {load.name} is a closed loop, in which nothing is due at a time; give 0"
    if load is None and request.planned_end is not None:
        yield "cancel_at_ns", "a warm-up request must be served whole"
    said, found = load.turns if load else None, request.turn.answer if request.turn else None
    if load is not None and found is not None and said != found:
        yield "turn.answer", f"the turn has {found} answers, the header says {said} of load {load.name}"


def _miscounts(header: TraceHeader, tally: Tally) -> Iterator[FieldProblem]:
    stated = {load.name: load.requests for load in header.loads} | {WARMUP: header.warmup_requests}
    for load, count in stated.items():
        found = tally.of_load(load)
        if found != count:
            message = f"load {load}: header says {count} requests, the trace has {found}"
            yield FieldProblem("loads", message, "correct the header, or add what is missing")
    if len(stated) <= len(header.loads):
        yield FieldProblem("loads", "a load's name is used twice, or is warmup", "give each load a name of its own")


def _repeated_ids(ids: "array[int]") -> Iterator[FieldProblem]:
    """By 64-bit hashes: the ids of a million requests then take 8 MB, and a false alarm has a chance of 3e-8."""
    hashes = np.frombuffer(ids, dtype=np.uint64) if ids else np.empty(0, dtype=np.uint64)
    order = np.argsort(hashes, kind="stable")
    for place in np.flatnonzero(hashes[order][1:] == hashes[order][:-1])[:PROBLEMS_MAX]:
        first, again = sorted((int(order[place]) + 2, int(order[place + 1]) + 2))
        message = f"lines {first} and {again} have the same request id: it is used twice"
        yield FieldProblem("request_id", message, "make each request id unique in the trace")
