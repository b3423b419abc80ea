"""Parquet under zstd: a row for each offered request, or a row for each chunk of its answer.

Types are those of the evidence, arrays are lists, nulls stay null; row groups leave as they fill.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice, pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from app.domain.errors import EvidenceRefused
from app.domain.evidence import RunEvidence
from app.domain.observation import RequestObservation
from app.domain.report import ANALYSIS_VERSION
from app.interop.exports.drain import Drain
from app.interop.exports.outline import Outline
from app.interop.exports.rows import (
    ARRAYS,
    DERIVED,
    IMPOSSIBLE,
    PLACE,
    SCALARS,
    SPECULATION_ARRAYS,
    SPECULATION_SCALARS,
    derived_cells,
    exact,
    place_of,
    strata_cells,
)

REQUESTS_FORMAT: Final = "verdraft/requests-parquet/v0"
CHUNKS_FORMAT: Final = "verdraft/chunks-parquet/v0"
REQUESTS_IN_GROUP: Final = 10_000
CHUNKS_IN_GROUP: Final = 200_000
ROWS_AT_ONCE: Final = 2000
CHUNK_COLUMNS: Final = ("request_id", "chunk", "at_ns", "since_due_ns", "gap_ns", "tokens")

Row = dict[str, Any]
Arrow = Any
"""A type, field or schema of pyarrow, which has no types of its own."""

_TEXTS: Final = frozenset(
    {"experiment", "arm", "workload", "load", "run_state", "run_failure", IMPOSSIBLE}
    | {"request_id", "outcome", "text", "reasoning", "tool_calls", "finish_reason", "error"}
)
_REPEATED: Final = frozenset({"experiment", "arm", "workload", "load", "run_state", "run_failure", "outcome"})


class _ParquetEncoder:
    """Tables become a row group when they have ``group`` rows together."""

    def __init__(self, schema: Arrow, group: int) -> None:
        self._schema, self._group = schema, group
        self._drain, self._waiting, self._rows = Drain(), list[Arrow](), 0
        self._writer = pq.ParquetWriter(pa.PythonFile(self._drain, mode="w"), schema, compression="zstd")

    def begin(self) -> bytes:
        return self._drain.take()

    def end(self) -> bytes:
        self._flush()
        self._writer.close()
        return self._drain.take()

    def _added(self, tables: Iterable[Arrow]) -> Iterator[bytes]:
        for table in tables:
            left = table
            while self._rows + left.num_rows >= self._group:
                room = self._group - self._rows
                self._wait(left.slice(0, room))
                self._flush()
                yield self._drain.take()
                left = left.slice(room)
            self._wait(left)

    def _wait(self, table: Arrow) -> None:
        if table.num_rows:
            self._waiting.append(table)
            self._rows += table.num_rows

    def _flush(self) -> None:
        if self._waiting:
            whole = pa.concat_tables(self._waiting).unify_dictionaries().combine_chunks()
            self._writer.write_table(whole, row_group_size=self._group)
            self._waiting, self._rows = [], 0


class RequestsEncoder(_ParquetEncoder):
    """One row per offered request; from it the observation can be built again, exactly."""

    def __init__(self, outline: Outline) -> None:
        super().__init__(_requests_schema(outline), REQUESTS_IN_GROUP)
        self._outline = outline

    def add(self, run: RunEvidence) -> Iterator[bytes]:
        return self._added(self._tables(run))

    def _tables(self, run: RunEvidence) -> Iterator[Arrow]:
        place = place_of(self._outline, run)._asdict()
        rows = (
            {**place, **dict(strata_cells(self._outline, run, o.request_id)), **_request_cells(o)}
            for o in map(exact, run.observations)
        )
        while some := [*islice(rows, ROWS_AT_ONCE)]:
            with _fitting():
                yield pa.Table.from_pylist(some, schema=self._schema)


class ChunksEncoder(_ParquetEncoder):
    """One row per chunk with tokens: when it was received and how many tokens it carried."""

    def __init__(self, outline: Outline) -> None:
        super().__init__(_chunks_schema(outline), CHUNKS_IN_GROUP)
        self._outline = outline

    def add(self, run: RunEvidence) -> Iterator[bytes]:
        return self._added(self._tables(run))

    def _tables(self, run: RunEvidence) -> Iterator[Arrow]:
        place = place_of(self._outline, run)._asdict()
        observations = iter(run.observations)
        while some := [*islice(observations, ROWS_AT_ONCE)]:
            columns = _chunk_columns(some)
            rows = len(columns["chunk"])
            with _fitting():
                same = {name: pa.repeat(pa.scalar(value, _kind(name)), rows) for name, value in place.items()}
                own = {name: pa.array(values, _kind(name)) for name, values in columns.items()}
                yield pa.table([*({**same, **own}[name] for name in self._schema.names)], schema=self._schema)


def observation_of_row(row: Mapping[str, Any]) -> RequestObservation:
    """The observation in a row of the requests table."""
    counts = {name: row[name] for name in (*SPECULATION_SCALARS, *SPECULATION_ARRAYS)}
    seen = {name: row[name] for name in (*SCALARS, *ARRAYS)}
    told = None if counts["num_spec_steps"] is None else counts
    return RequestObservation.model_validate({**seen, "speculation": told})


def _request_cells(observation: RequestObservation) -> Row:
    told = observation.speculation
    counts = dict.fromkeys((*SPECULATION_SCALARS, *SPECULATION_ARRAYS)) if told is None else told.model_dump()
    return {**observation.model_dump(exclude={"speculation"}), **counts, **derived_cells(observation)}


def _chunk_columns(observations: Iterable[RequestObservation]) -> dict[str, list[Any]]:
    """By column, since there are many: a null where times and counts are not as many."""
    columns: dict[str, list[Any]] = {name: [] for name in CHUNK_COLUMNS}
    for seen in observations:
        times, due_ns = seen.chunk_ns, seen.due_ns
        rows = max(len(times), len(seen.chunk_tokens))
        untimed = [None] * (rows - len(times))
        gaps = [later - earlier for earlier, later in pairwise(times)]
        columns["request_id"] += [seen.request_id] * rows
        columns["chunk"] += range(rows)
        columns["at_ns"] += [*times, *untimed]
        columns["since_due_ns"] += [*(at - due_ns for at in times), *untimed]
        columns["gap_ns"] += [*([None] if times else []), *gaps, *untimed]
        columns["tokens"] += [*seen.chunk_tokens, *([None] * (rows - len(seen.chunk_tokens)))]
    return columns


@contextmanager
def _fitting() -> Generator[None]:
    """A foreign bundle may hold numbers that no column takes."""
    try:
        yield
    except (pa.ArrowException, OverflowError) as error:
        remedy = "no worker records such numbers: measure again, or export jsonl"
        raise EvidenceRefused.of("observations", f"a value does not fit its column: {error}", remedy) from error


def _requests_schema(outline: Outline) -> Arrow:
    strata = [_field(f"stratum_{dimension}", _repeated()) for dimension in outline.dimensions]
    numbers = [_field(name, pa.float64() if name in _FRACTIONS else pa.int64()) for name in DERIVED]
    return pa.schema(
        [
            *map(_plain_field, PLACE),
            *strata,
            *map(_plain_field, SCALARS),
            *(_field(name, pa.list_(pa.float64() if name == "logprobs" else pa.int64())) for name in ARRAYS),
            *map(_plain_field, SPECULATION_SCALARS),
            *(_field(name, pa.list_(pa.int64())) for name in SPECULATION_ARRAYS),
            *numbers,
            _plain_field(IMPOSSIBLE),
        ],
        metadata=_metadata(outline, REQUESTS_FORMAT),
    )


def _chunks_schema(outline: Outline) -> Arrow:
    return pa.schema([*map(_plain_field, (*PLACE, *CHUNK_COLUMNS))], metadata=_metadata(outline, CHUNKS_FORMAT))


_FRACTIONS: Final = frozenset({"tpot_ns", "itl_chunk_mean_ns", "itl_token_mean_ns"})


def _metadata(outline: Outline, name: str) -> dict[str, str]:
    facts = {"format": name, "experiment": outline.experiment, "analysis_version": ANALYSIS_VERSION}
    return {f"verdraft.{key}": value for key, value in facts.items()}


def _plain_field(name: str) -> Arrow:
    return _field(name, _kind(name))


def _kind(name: str) -> Arrow:
    if name == "counted":
        return pa.bool_()
    if name in _REPEATED:
        return _repeated()
    return pa.string() if name in _TEXTS else pa.int64()


def _field(name: str, kind: Arrow) -> Arrow:
    return pa.field(name, kind)


def _repeated() -> Arrow:
    return pa.dictionary(pa.int32(), pa.string())
