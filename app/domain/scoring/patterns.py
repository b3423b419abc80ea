"""Patterns that strangers wrote, matched in time linear in the text, whatever the pattern: by RE2."""

from functools import lru_cache
from typing import Any, Final

import re2

MEMORY_MAX: Final = 1 << 23


class PatternRefused(ValueError):
    """RE2 does not take the pattern; the words are its own."""


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:
    """The pattern, ready. Raises ``PatternRefused``."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_MAX
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        said = error.args[0] if error.args else error
        raise PatternRefused(said.decode(errors="replace") if isinstance(said, bytes) else str(said)) from error
    except UnicodeEncodeError as error:
        raise PatternRefused("it holds half of a surrogate pair") from error


def matches_whole(pattern: str, text: str) -> bool:
    """Whether all of ``text`` matches, as constrained decoding means it."""
    return compiled(pattern).fullmatch(encodable(text)) is not None


def occurs(pattern: str, text: str) -> bool:
    """Whether it matches anywhere, as JSON Schema means it."""
    return compiled(pattern).search(encodable(text)) is not None


def encodable(text: str) -> str:
    """Half surrogate pairs, which UTF-8 has not, as question marks."""
    return text.encode(errors="replace").decode()
