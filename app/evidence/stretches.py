"""Series in the stretches that a row of Postgres holds, and whole again."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from app.domain.series import Series

SAMPLES_PER_ROW: Final = 3600
"""An hour at one sample a second, six minutes at ten."""


def stretches_of(series: Iterable[Series]) -> Iterator[tuple[int, Series]]:
    """Each quantity in stretches that a row holds, with their numbers."""
    for whole in series:
        for start in range(0, len(whole.at_ns), SAMPLES_PER_ROW):
            part = slice(start, start + SAMPLES_PER_ROW)
            values = {"at_ns": whole.at_ns[part], "values": whole.values[part]}
            yield start // SAMPLES_PER_ROW, whole.model_copy(update=values)


def joined_series(rows: Iterable[Any]) -> tuple[Series, ...]:
    """Each quantity's stretches as one; the rows come by name, labels and chunk."""
    groups = groupby(rows, key=attrgetter("name", "labels"))
    return tuple(_joined(name, labels, list(stretches)) for (name, labels), stretches in groups)


def _joined(name: str, labels: Mapping[str, Any], stretches: Sequence[Any]) -> Series:
    return Series(
        name=name,
        labels={key: str(value) for key, value in labels.items()},
        at_ns=tuple(at for row in stretches for at in row.at_ns),
        values=tuple(value for row in stretches for value in row.values),
    )
