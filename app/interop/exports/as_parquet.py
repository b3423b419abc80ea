"""Parquet under zstd: a row for each offered request, or a row for each chunk of its answer.

Types are those of the evidence, arrays are lists, nulls stay null; row groups leave as they fill.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise, zip_longest
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
    place_of,
    strata_cells,
)

REQUESTS_FORMAT: Final = "verdraft/requests-parquet/v0"
CHUNKS_FORMAT: Final = "verdraft/chunks-parquet/v0"
REQUESTS_IN_GROUP: Final = 10_000
CHUNKS_IN_GROUP: Final = 200_000

Row = dict[str, Any]
Arrow = Any
"""A type, field or schema of pyarrow, which has no types of its own."""

_TEXTS: Final = frozenset(
    {"experiment", "arm", "workload", "load", "run_state", "run_failure", IMPOSSIBLE}
    | {"request_id", "outcome", "text", "reasoning", "tool_calls", "finish_reason", "error"}
)
_REPEATED: Final = frozenset({"experiment", "arm", "workload", "load", "run_state", "run_failure", "outcome"})


class _ParquetEncoder:
    """Rows become a row group when there are ``group`` of them."""

    def __init__(self, schema: Arrow, group: int) -> None:
        self._schema, self._group = schema, group
        self._drain, self._waiting = Drain(), list[Row]()
        self._writer = pq.ParquetWriter(pa.PythonFile(self._drain, mode="w"), schema, compression="zstd")

    def begin(self) -> bytes:
        return self._drain.take()

    def end(self) -> bytes:
        self._flush()
        self._writer.close()
        return self._drain.take()

    def _added(self, rows: Iterable[Row]) -> Iterator[bytes]:
        for row in rows:
            self._waiting.append(row)
            if len(self._waiting) >= self._group:
                self._flush()
                yield self._drain.take()

    def _flush(self) -> None:
        if not self._waiting:
            return
        try:
            table = pa.Table.from_pylist(self._waiting, schema=self._schema)
        except (pa.ArrowException, OverflowError) as error:
            remedy = "no worker records such numbers: measure again, or export jsonl"
            raise EvidenceRefused.of("observations", f"a value does not fit its column: {error}", remedy) from error
        self._writer.write_table(table)
        self._waiting = []


class RequestsEncoder(_ParquetEncoder):
    """One row per offered request; from it the observation can be built again, exactly."""

    def __init__(self, outline: Outline) -> None:
        super().__init__(_requests_schema(outline), REQUESTS_IN_GROUP)
        self._outline = outline

    def add(self, run: RunEvidence) -> Iterator[bytes]:
        place = place_of(self._outline, run)._asdict()
        return self._added(
            {**place, **dict(strata_cells(self._outline, run, o.request_id)), **_request_cells(o)}
            for o in run.observations
        )


class ChunksEncoder(_ParquetEncoder):
    """One row per chunk with tokens: when it was received and how many tokens it carried."""

    def __init__(self, outline: Outline) -> None:
        super().__init__(_chunks_schema(outline), CHUNKS_IN_GROUP)
        self._outline = outline

    def add(self, run: RunEvidence) -> Iterator[bytes]:
        place = place_of(self._outline, run)._asdict()
        return self._added({**place, **chunk} for o in run.observations for chunk in _chunk_cells(o))


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


def _chunk_cells(observation: RequestObservation) -> Iterator[Row]:
    gaps = (None, *(later - earlier for earlier, later in pairwise(observation.chunk_ns)))
    cells = zip_longest(observation.chunk_ns, observation.chunk_tokens, gaps[: len(observation.chunk_ns)])
    for index, (at_ns, tokens, gap_ns) in enumerate(cells):
        yield {
            "request_id": observation.request_id,
            "chunk": index,
            "at_ns": at_ns,
            "since_due_ns": None if at_ns is None else at_ns - observation.due_ns,
            "gap_ns": gap_ns,
            "tokens": tokens,
        }


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
    own = ("request_id", "chunk", "at_ns", "since_due_ns", "gap_ns", "tokens")
    return pa.schema([*map(_plain_field, (*PLACE, *own))], metadata=_metadata(outline, CHUNKS_FORMAT))


_FRACTIONS: Final = frozenset({"tpot_ns", "itl_chunk_mean_ns", "itl_token_mean_ns"})


def _metadata(outline: Outline, name: str) -> dict[str, str]:
    facts = {"format": name, "experiment": outline.experiment, "analysis_version": ANALYSIS_VERSION}
    return {f"verdraft.{key}": value for key, value in facts.items()}


def _plain_field(name: str) -> Arrow:
    if name == "counted":
        return _field(name, pa.bool_())
    if name in _REPEATED:
        return _field(name, _repeated())
    return _field(name, pa.string() if name in _TEXTS else pa.int64())


def _field(name: str, kind: Arrow) -> Arrow:
    return pa.field(name, kind)


def _repeated() -> Arrow:
    return pa.dictionary(pa.int32(), pa.string())
