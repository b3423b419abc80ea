"""Observations as rows of Postgres and back, at the speed at which millions of them come and go.

What our own database holds was checked when it was written, so nothing is checked again here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, TypeVar
from uuid import UUID

from pydantic import BaseModel

from app.domain.observation import RequestObservation, SpeculationCounts
from app.domain.vocabulary import Outcome

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
COPY_STATEMENT: Final = f"COPY observation (experiment, run_id, {', '.join(FIELDS)}) FROM STDIN".encode()
LINES_AT_ONCE: Final = 500

SPECULATION: Final = (*_COUNTS, *_HISTOGRAMS)
_COUNTS_AT = len(OBSERVED)
_OUTCOMES = {str(outcome.value): outcome for outcome in Outcome}
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_plain_of, _exact_of, _arrays_of = itemgetter(*_PLAIN), itemgetter(*_EXACT), itemgetter(*_ARRAYS)
_counts_of, _histograms_of = itemgetter(*_COUNTS), itemgetter(*_HISTOGRAMS)
_SELECT = f"SELECT run_id, {', '.join(FIELDS)} FROM observation WHERE experiment = %s AND run_id = "  # noqa: S608
SELECT_RUNS: Final = f"{_SELECT} ANY(%s) ORDER BY array_position(%s, run_id), due_ns, request_id".encode()
SELECT_PAGE: Final = f"{_SELECT} %s AND request_id > %s ORDER BY request_id LIMIT %s".encode()
_NO_SPECULATION = "\t".join(["\\N"] * (len(_COUNTS) + len(_HISTOGRAMS)))

_EVERY_FIELD: Mapping[type[BaseModel], set[str]] = {
    model: set(model.model_fields) for model in (RequestObservation, SpeculationCounts)
}
_NOTHING_ELSE = (("__pydantic_extra__", None), ("__pydantic_private__", None))

M = TypeVar("M", bound=BaseModel)
Row = Sequence[Any]
"""The values of ``FIELDS``, as the driver gives them."""


def copy_blocks(experiment: str, run_id: UUID, observations: Iterable[RequestObservation]) -> Iterator[bytes]:
    """The observations in the text format of ``COPY_STATEMENT``, many to a block."""
    head, lines = f"{experiment}\t{run_id}\t", list[str]()
    for observation in observations:
        lines.append(head + _line(observation))
        if len(lines) == LINES_AT_ONCE:
            yield "".join(lines).encode()
            lines.clear()
    yield "".join(lines).encode()


def observation_of(row: Row) -> RequestObservation:
    """The value that was recorded, exactly."""
    values: dict[str, Any] = dict(zip(OBSERVED, row, strict=False))
    values["outcome"] = _OUTCOMES[values["outcome"]]
    for name in _EXACT:
        if isinstance(value := values[name], bytes | memoryview):
            values[name] = str(value, "utf-8")
    for name in _ARRAYS:
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


def _line(observation: RequestObservation) -> str:
    seen, speculation = observation.__dict__, observation.speculation
    cells = [
        *("\\N" if value is None else str(value).translate(_ESCAPES) for value in _plain_of(seen)),
        *("\\N" if value is None else "\\\\x" + value.encode().hex() for value in _exact_of(seen)),
        *map(_array, _arrays_of(seen)),
    ]
    if speculation is None:
        cells.append(_NO_SPECULATION)
    else:
        cells += [str(count) for count in _counts_of(speculation.__dict__)]
        cells += map(_array, _histograms_of(speculation.__dict__))
    return "\t".join(cells) + "\n"


def _array(values: tuple[float, ...]) -> str:
    """An array as Postgres reads it: Python prints a list in the same way but for the brackets."""
    return f"{{{str(list(values))[1:-1]}}}"
