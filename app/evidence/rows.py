"""Observations as rows of Postgres and back, at the speed at which millions of them come and go.

What our own database holds was checked when it was written, so nothing is checked again here.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, Final, TypeVar
from uuid import UUID, uuid4

from pydantic import BaseModel

from app.domain.canonical import canonical_json
from app.domain.observation import RequestObservation, SpeculationCounts
from app.domain.series import Series
from app.domain.vocabulary import Outcome
from app.evidence.copying import (
    HEADER,
    TRAILER,
    bigint_arrays,
    bigints,
    binary_rows,
    documents,
    float_arrays,
    texts,
    uuids,
)

_EXACT: Final = ("text", "reasoning", "tool_calls", "error")
"""Generated text: kept as bytes, since it may hold what Postgres text cannot."""
_ARRAYS: Final = ("chunk_ns", "chunk_tokens", "token_ids", "logprobs")
_PLAIN: Final = tuple(
    name for name in RequestObservation.model_fields if name not in {"speculation", *_EXACT, *_ARRAYS}
)
_COUNTS: Final = ("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens")
_HISTOGRAMS: Final = ("acceptance_histogram", "per_step_accepted", "per_step_drafted")
OBSERVED: Final = (*_PLAIN, *_EXACT, *_ARRAYS)
FIELDS: Final = (*OBSERVED, *_COUNTS, *_HISTOGRAMS)
_BINARY: Final = "FROM STDIN (FORMAT BINARY)"
COPY_STATEMENT: Final = f"COPY observation (experiment, run_id, {', '.join(FIELDS)}) {_BINARY}".encode()
COPY_SERIES: Final = f"COPY series (experiment, id, run_id, name, chunk, labels, at_ns, values) {_BINARY}".encode()
ROWS_AT_ONCE: Final = 500

SPECULATION: Final = (*_COUNTS, *_HISTOGRAMS)
_COUNTS_AT = len(OBSERVED)
_OUTCOMES = {str(outcome.value): outcome for outcome in Outcome}
_PACKERS: Final[Mapping[str, Callable[[Sequence[Any]], Iterable[bytes]]]] = {
    **dict.fromkeys(("request_id", "outcome", "finish_reason", *_EXACT), texts),
    **dict.fromkeys((*_ARRAYS, *_HISTOGRAMS), bigint_arrays),
    "logprobs": float_arrays,
}
_SELECT = f"SELECT run_id, {', '.join(FIELDS)} FROM observation WHERE experiment = %s AND run_id = "  # noqa: S608
SELECT_RUNS: Final = f"{_SELECT} ANY(%s) ORDER BY array_position(%s, run_id), due_ns, request_id".encode()
SELECT_ONE: Final = f"{_SELECT} ANY(%s) AND request_id = %s".encode()
SELECT_PAGE: Final = f"{_SELECT} %s AND request_id > %s ORDER BY request_id LIMIT %s".encode()

_EVERY_FIELD: Mapping[type[BaseModel], set[str]] = {
    model: set(model.model_fields) for model in (RequestObservation, SpeculationCounts)
}
_NOTHING_ELSE = (("__pydantic_extra__", None), ("__pydantic_private__", None))

M = TypeVar("M", bound=BaseModel)
Row = Sequence[Any]
"""The values of ``FIELDS``, as the driver gives them."""


def copy_blocks(experiment: str, run_id: UUID, observations: Iterable[RequestObservation]) -> Iterator[bytes]:
    """The observations as ``COPY_STATEMENT`` takes them, many to a block."""
    yield HEADER
    left = iter(observations)
    while portion := [*islice(left, ROWS_AT_ONCE)]:
        yield binary_rows(_packed(experiment, run_id, portion))
    yield TRAILER


def series_blocks(experiment: str, run_id: UUID, stretches: Iterable[tuple[int, Series]]) -> Iterator[bytes]:
    """Numbered stretches of series as ``COPY_SERIES`` takes them."""
    yield HEADER
    left = iter(stretches)
    while portion := [*islice(left, ROWS_AT_ONCE)]:
        series = [stretch for _, stretch in portion]
        yield binary_rows(
            (
                texts([experiment] * len(portion)),
                uuids([uuid4() for _ in portion]),
                uuids([run_id] * len(portion)),
                texts([one.name for one in series]),
                bigints([number for number, _ in portion]),
                documents([canonical_json({**one.labels}) for one in series]),
                bigint_arrays([one.at_ns for one in series]),
                float_arrays([one.values for one in series]),
            )
        )
    yield TRAILER


def observation_of(row: Row) -> RequestObservation:
    """The value that was recorded, exactly; arrays that are compact already stay so."""
    values: dict[str, Any] = dict(zip(OBSERVED, row, strict=False))
    values["outcome"] = _OUTCOMES[values["outcome"]]
    for name in _EXACT:
        if isinstance(value := values[name], bytes | memoryview):
            values[name] = str(value, "utf-8")
    for name in _ARRAYS:
        if not isinstance(values[name], tuple | array):
            values[name] = tuple(values[name])
    values["speculation"] = _speculation(row[_COUNTS_AT:])
    return trusted(RequestObservation, values)


def row_of(observation: RequestObservation) -> Row:
    """The values of ``FIELDS``; text stays text."""
    told = observation.speculation
    counts = (None,) * len(SPECULATION) if told is None else tuple(told.__dict__[name] for name in SPECULATION)
    return (*(observation.__dict__[name] for name in OBSERVED), *counts)


def trusted(model: type[M], values: dict[str, Any]) -> M:
    """A frozen model of fields that were checked before; pydantic's own ``model_construct`` is slower than a check."""
    made = model.__new__(model)
    for name, value in (("__dict__", values), ("__pydantic_fields_set__", _EVERY_FIELD[model]), *_NOTHING_ELSE):
        object.__setattr__(made, name, value)
    return made


def by_run(rows: Iterable[Row]) -> Iterator[tuple[UUID, list[RequestObservation]]]:
    """Each run's observations; a row is its run and then ``FIELDS``, and those of a run come together."""
    for run_id, group in groupby(rows, key=itemgetter(0)):
        yield run_id, [observation_of(row[1:]) for row in group]


def _speculation(row: Row) -> SpeculationCounts | None:
    values: dict[str, Any] = dict(zip(SPECULATION, row, strict=True))
    if None in values.values():
        return None
    for name in _HISTOGRAMS:
        values[name] = tuple(values[name])
    return trusted(SpeculationCounts, values)


def _packed(experiment: str, run_id: UUID, observations: Sequence[RequestObservation]) -> Iterator[Iterable[bytes]]:
    """Column by column, in the order of ``COPY_STATEMENT``."""
    yield texts([experiment] * len(observations))
    yield uuids([run_id] * len(observations))
    columns = dict(zip(FIELDS, zip(*map(row_of, observations), strict=True), strict=True))
    for name in FIELDS:
        yield _PACKERS.get(name, bigints)(columns[name])
