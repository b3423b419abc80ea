"""Takes drafts in privacy mode: public lines go to the spool, private ones to a file of their own."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import Self

from app.domain.canonical import canonical_json
from app.domain.trace_request import TraceRequest
from app.workloads.drafting import Draft
from app.workloads.output import Written, write_lines
from app.workloads.privacy import ProjectKey, split
from app.workloads.record import Row
from app.workloads.spool import Spool

OWNER_ONLY = 0o600


class PrivateSink:
    """A context manager; until ``publish`` what is private is in a nameless file, of which nothing stays."""

    def __init__(self, spool: Spool, key: ProjectKey, directory: Path) -> None:
        self._spool = spool
        self._key = key
        self._file = TemporaryFile("w+b", dir=directory)  # noqa: SIM115

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, draft: Draft, arrival_ns: int | None) -> None:
        """Split each request; raises ``RowRefused`` as the spool does."""
        parts = [self._split(request) for request in draft.requests]
        self._spool.add(replace(draft, requests=tuple(public for public, _ in parts)), arrival_ns)
        for _, private in parts:
            self._file.write(canonical_json(private) + b"\n")

    def publish(self, path: Path) -> Written:
        """Write the prompt file, readable by its owner only."""
        return write_lines(path, self._lines(), mode=OWNER_ONLY)

    def _split(self, request: TraceRequest) -> tuple[TraceRequest, Row]:
        document: Row = request.model_dump(mode="json", exclude_defaults=True)
        public, private = split(document, self._key, request.prompt_tokens)
        return TraceRequest.model_validate(public), private

    def _lines(self) -> Iterator[bytes]:
        self._file.seek(0)
        return (line.rstrip(b"\n") for line in self._file)
