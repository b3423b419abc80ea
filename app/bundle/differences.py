"""Where two JSON documents differ, as paths with both values."""

import json
import math
from collections.abc import Iterator
from itertools import zip_longest
from typing import Final

from pydantic import JsonValue

WORDS_MAX: Final = 80
RELATIVE_MAX: Final = 1e-9
"""Another processor or library may add up in another order; that is far below anything that is published."""
_NOTHING: Final[list[JsonValue]] = []
"""Stands, by identity, for a part that one of the two does not have."""


Leaf = tuple[str, str, str]


def differences(stated: JsonValue, recomputed: JsonValue, path: str = "") -> Iterator[Leaf]:
    """(path, stated, recomputed) of each leaf that differs; a part that only one of them has is one leaf."""
    if isinstance(stated, dict) and isinstance(recomputed, dict):
        for key in sorted({*stated, *recomputed}):
            here = f"{path}.{key}" if path else key
            yield from _part(here, stated.get(key, _NOTHING), recomputed.get(key, _NOTHING))
    elif isinstance(stated, list) and isinstance(recomputed, list):
        for place, (theirs, ours) in enumerate(zip_longest(stated, recomputed, fillvalue=_NOTHING)):
            yield from _part(f"{path}[{place}]", theirs, ours)
    elif not _same(stated, recomputed):
        yield path, _words(stated), _words(recomputed)


def _part(path: str, stated: JsonValue, recomputed: JsonValue) -> Iterator[Leaf]:
    if stated is _NOTHING or recomputed is _NOTHING:
        yield path, _words(stated), _words(recomputed)
    else:
        yield from differences(stated, recomputed, path)


def _same(stated: JsonValue, recomputed: JsonValue) -> bool:
    if isinstance(stated, float) and isinstance(recomputed, float):
        return math.isclose(stated, recomputed, rel_tol=RELATIVE_MAX)
    return type(stated) is type(recomputed) and stated == recomputed


def _words(value: JsonValue) -> str:
    if value is _NOTHING:
        return "nothing"
    told = json.dumps(value, ensure_ascii=False)
    return told if len(told) <= WORDS_MAX else told[:WORDS_MAX] + "…"
