"""The fields of a row with their types; each raises ``RowRefused`` naming the source's field, quoting nothing."""

import re
from collections.abc import Mapping
from decimal import Decimal

from pydantic import JsonValue

from app.workloads.record import Row, RowRefused

COUNT_MAX = 100_000_000
"""The longest prompt or answer that is believed, in tokens."""
_LABEL_CHARACTERS = re.compile(r"[^a-z0-9._-]+")
_WHOLE = re.compile(r"[0-9]{1,12}", re.ASCII)
_PLAIN_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{0,12})?", re.ASCII)


def required(row: Row, name: str) -> JsonValue:
    """The field's value, null included; a missing field refuses the row."""
    if name not in row:
        raise RowRefused(name, "is missing")
    return row[name]


def text(row: Row, name: str) -> str:
    """A text that is not empty."""
    value = required(row, name)
    if not isinstance(value, str):
        raise RowRefused(name, "is not text")
    if not value:
        raise RowRefused(name, "is empty")
    return value


def optional_text(row: Row, name: str) -> str | None:
    """A text, or None where the field is absent, null or empty."""
    value = row.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise RowRefused(name, "is not text")
    return value


def count(row: Row, name: str, *, least: int = 0) -> int:
    """A whole JSON number of tokens, ``least`` or more."""
    return checked_count(required(row, name), name, least=least)


def optional_count(row: Row, name: str, *, least: int = 0) -> int | None:
    """As ``count``, or None where the field is absent or null."""
    return None if row.get(name) is None else count(row, name, least=least)


def checked_count(value: JsonValue, name: str, *, least: int = 0) -> int:
    """``value`` as a number of tokens."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise RowRefused(name, "is not a whole number")
    if not least <= value <= COUNT_MAX:
        raise RowRefused(name, f"is not between {least} and {COUNT_MAX}")
    return value


def cell_count(row: Row, name: str, *, least: int = 0) -> int:
    """A number of tokens written in a CSV cell."""
    cell = required(row, name)
    if not isinstance(cell, str) or not _WHOLE.fullmatch(cell):
        raise RowRefused(name, "is not a whole number")
    return checked_count(int(cell), name, least=least)


def cell_decimal(row: Row, name: str) -> Decimal:
    """A number of 0 or more written in a CSV cell, exactly."""
    cell = required(row, name)
    if not isinstance(cell, str) or not _PLAIN_NUMBER.fullmatch(cell):
        raise RowRefused(name, "is not a number of 0 or more")
    return Decimal(cell)


def objects(row: Row, name: str) -> list[Row]:
    """A list of JSON objects that is not empty."""
    value = required(row, name)
    if not isinstance(value, list) or not value:
        raise RowRefused(name, "is not a list with entries")
    entries = [entry for entry in value if isinstance(entry, dict)]
    if len(entries) < len(value):
        raise RowRefused(name, "holds an entry that is not an object")
    return entries


def texts(row: Row, name: str) -> list[str]:
    """A list of texts that is not empty, none of them empty."""
    value = required(row, name)
    if not isinstance(value, list) or not value:
        raise RowRefused(name, "is not a list with entries")
    entries = [entry for entry in value if isinstance(entry, str) and entry]
    if len(entries) < len(value):
        raise RowRefused(name, "holds an entry that is not text or is empty")
    return entries


def whole_numbers(row: Row, name: str) -> tuple[int, ...]:
    """A list of whole numbers of 0 or more; absent or null is the empty list."""
    value = row.get(name)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise RowRefused(name, "is not a list")
    numbers = tuple(n for n in value if isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 1 << 63)
    if len(numbers) < len(value):
        raise RowRefused(name, "holds an entry that is not a whole number of 0 or more")
    return numbers


def label(value: str) -> str:
    """A source's category as a label of ours: lower case, other characters become one hyphen."""
    name = _LABEL_CHARACTERS.sub("-", value.lower()).strip("-._")[:63].rstrip("-._")
    return name or "other"


def labels(row: Row, dimensions: Mapping[str, str]) -> dict[str, str]:
    """Labels from text or number fields of the row; ``dimensions`` maps the field to our dimension."""
    found = {dimension: row.get(name) for name, dimension in dimensions.items()}
    return {dimension: label(str(value)) for dimension, value in found.items() if isinstance(value, str | int)}
