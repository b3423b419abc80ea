"""Drafted requests on disk until it is known which load point each belongs to; 32 bytes a row stay in memory."""

from array import array
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from app.domain.trace_scan import LINE_BYTES_MAX, canonical_line
from app.workloads.drafting import Draft
from app.workloads.record import RowRefused

NO_ARRIVAL = -1
Integers = npt.NDArray[np.int64]


class Spool:
    """Rows' drafts in a nameless file on the output's disk; a context manager. Nothing stays of it after a kill."""

    def __init__(self, directory: Path) -> None:
        self._file = TemporaryFile("w+b", dir=directory)  # noqa: SIM115
        self._offsets = array("q")
        self._arrivals = array("q")
        self._turns = array("q")
        self._strata = array("q")
        self.combinations: dict[tuple[tuple[str, str], ...], int] = {}
        """Each set of labels that occurs → its number."""
        self.valid = True
        """Whether all content is real text."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, draft: Draft, arrival_ns: int | None) -> None:
        """Append a row's requests. Raises ``RowRefused`` where a trace cannot hold them, and then adds none."""
        lines = encoded(draft)
        labels = tuple(sorted(draft.requests[0].strata.items()))
        self._offsets.append(self._file.tell())
        self._arrivals.append(NO_ARRIVAL if arrival_ns is None else arrival_ns)
        self._turns.append(len(lines))
        self._strata.append(self.combinations.setdefault(labels, len(self.combinations)))
        self._file.write(b"".join(line + b"\n" for line in lines))
        self.valid = self.valid and draft.valid

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def arrivals(self) -> Integers:
        """Each row's arrival on the source's clock, or ``NO_ARRIVAL``."""
        return np.frombuffer(self._arrivals, dtype=np.int64) if len(self) else np.empty(0, dtype=np.int64)

    @property
    def turns(self) -> Integers:
        """How many requests each row has."""
        return np.frombuffer(self._turns, dtype=np.int64) if len(self) else np.empty(0, dtype=np.int64)

    @property
    def strata(self) -> Integers:
        """Each row's number in ``combinations``."""
        return np.frombuffer(self._strata, dtype=np.int64) if len(self) else np.empty(0, dtype=np.int64)

    def lines(self, rows: Integers) -> Iterator[bytes]:
        """The requests of these rows, in their order, each as the canonical line of its draft."""
        for row in rows.tolist():
            self._file.seek(self._offsets[row])
            for _ in range(self._turns[row]):
                yield self._file.readline().rstrip(b"\n")


class Discard:
    """A spool that keeps nothing, for a look at a source; it refuses what a spool would refuse."""

    def add(self, draft: Draft, arrival_ns: int | None) -> None:  # noqa: ARG002  (as a spool)
        """Raises ``RowRefused`` where a trace could not hold the row."""
        encoded(draft)


def encoded(draft: Draft) -> list[bytes]:
    """The canonical lines of a draft's requests; raises ``RowRefused`` where one is too long for a trace."""
    lines = [canonical_line(request) for request in draft.requests]
    if any(len(line) > LINE_BYTES_MAX for line in lines):
        raise RowRefused("row", f"is longer than the {LINE_BYTES_MAX >> 20} MiB that a line of a trace may have")
    return lines
