"""Every number of a report that has an interval, found wherever it stands, so that a new one cannot be forgotten."""

from collections.abc import Iterator
from typing import NamedTuple

from pydantic import BaseModel

from app.domain.statistics import Estimate

PLACES = ("arm", "workload", "load", "stratum", "metric", "mode", "block")
"""Fields that say where in the experiment a number belongs."""


class Number(NamedTuple):
    """One estimate with the words for where it stands."""

    section: str
    place: str
    name: str
    estimate: Estimate


def numbers(report: BaseModel) -> Iterator[Number]:
    """All estimates, in the order of the report's fields."""
    for section in type(report).model_fields:
        yield from _within(getattr(report, section), section, "", "")


def _within(value: object, section: str, place: str, name: str) -> Iterator[Number]:
    if isinstance(value, Estimate):
        yield Number(section, place, name, value)
    elif isinstance(value, BaseModel):
        here = _place(value, place)
        for field in type(value).model_fields:
            yield from _within(getattr(value, field), section, here, f"{name}.{field}" if name else field)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _within(inner, section, place, f"{name}.{key}")
    elif isinstance(value, tuple | list):
        for inner in value:
            yield from _within(inner, section, place, name)


def _place(value: BaseModel, outer: str) -> str:
    parts = (getattr(value, field, None) for field in (*PLACES, "part"))
    told = [str(part) for part in parts if isinstance(part, str | int)]
    return " / ".join([*([outer] if outer else []), *told])
