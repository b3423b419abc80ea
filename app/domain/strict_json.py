"""JSON that strangers wrote, read strictly: what the grammar leaves open is refused, not resolved.

Duplicate keys, NaN, numbers beyond 64 bits, unstorable text and deep nesting are errors.
"""

import json
import math
from typing import Any, NoReturn

from pydantic import JsonValue

DEPTH_MAX = 32
INTEGER_MAX = 2**63


class Flaw(ValueError):
    """What is wrong with a document, in words."""


def loads_strict(content: bytes) -> JsonValue:
    """The one JSON document in ``content``; raises ``Flaw``."""
    try:
        return checked(json.loads(content, object_pairs_hook=unique, parse_constant=_no_constant))
    except RecursionError:
        raise Flaw(f"nested deeper than {DEPTH_MAX} levels") from None
    except ValueError as error:
        raise Flaw(f"not valid JSON: {error}") from error


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these members; raises ``Flaw`` where a key occurs twice."""
    document = dict(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Flaw(f"the key {twice!r} occurs twice")
    return document


def checked(value: Any, depth: int = 0) -> JsonValue:
    """The value, if JSON and Postgres can hold it; raises ``Flaw``, or ``RecursionError`` where it is too deep."""
    if depth > DEPTH_MAX:
        raise RecursionError
    if isinstance(value, dict):
        return {_text(key): checked(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return value if _are_small_integers(value) else [checked(item, depth + 1) for item in value]
    return _text(value) if isinstance(value, str) else _scalar(value)


def _are_small_integers(values: list[Any]) -> bool:
    """Whether a list is token ids and the like: most of a trace's bytes, so worth a short way."""
    return all(type(value) is int for value in values) and (
        not values or (min(values) >= -INTEGER_MAX and max(values) < INTEGER_MAX)
    )


def _scalar(value: Any) -> JsonValue:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and -INTEGER_MAX <= value < INTEGER_MAX:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, int | float):
        raise Flaw("a number is not finite or does not fit 64 bits")
    raise Flaw(f"a value has the type {type(value).__name__}, which JSON does not have; quote it")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Flaw(f"the key {value!r} is not text; quote it")
    if "\x00" in value or not _encodes(value):
        raise Flaw("a text holds NUL or half of a surrogate pair")
    return value


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _no_constant(name: str) -> NoReturn:
    raise Flaw(f"{name} is not a number")
