"""The texts of each language: names, sentences with slots, and how each family words its task."""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import TypeVar

Item = TypeVar("Item")
_SLOT = re.compile(r"\{(\w+)\}")


class LanguageCode(StrEnum):
    """Languages that the generator has texts in."""

    EN = "en"
    DE = "de"
    ES = "es"
    ZH = "zh"


@dataclass(frozen=True, slots=True)
class Language:
    """One language's sections, each a tuple of lines; ``joiner`` stands between sentences."""

    code: LanguageCode
    joiner: str
    sections: dict[str, tuple[str, ...]]

    def pick(self, rng: random.Random, section: str) -> str:
        """A line of a section, its slots unfilled."""
        return pick(rng, self.sections[section])

    def pairs(self, section: str, separator: str) -> tuple[tuple[str, str], ...]:
        """A section of ``left<separator>right`` lines."""
        parts = (line.partition(separator) for line in self.sections[section])
        return tuple((left, right) for left, _, right in parts)


class Values(dict[str, str]):
    """Slot → value. A value is drawn when it is first asked for, and then stays."""

    def __init__(self, rng: random.Random, texts: Language, **given: str) -> None:
        super().__init__(given)
        self._rng, self._texts = rng, texts

    def __missing__(self, slot: str) -> str:
        """Draw it; raises ``KeyError`` for a slot that no text has."""
        self[slot] = value = _DRAWS[slot](self._rng, self._texts, self)
        return value


def pick(rng: random.Random, items: Sequence[Item]) -> Item:
    """One of them, by ``random()`` alone: it is the draw that Python promises to keep, and the quickest."""
    return items[int(rng.random() * len(items))]


def number(rng: random.Random, low: int, high: int) -> int:
    """A whole number from ``low`` to ``high``, both included."""
    return low + int(rng.random() * (high - low + 1))


def fill(template: str, values: dict[str, str]) -> str:
    """The template with its slots filled; a slot without a value raises ``KeyError``."""
    return _SLOT.sub(lambda slot: values[slot[1]], template)


def _other(rng: random.Random, pool: Sequence[str], taken: str | None) -> str:
    """One of the pool that is not taken: two people in a text are not the same one."""
    drawn = pick(rng, pool)
    while drawn == taken:
        drawn = pick(rng, pool)
    return drawn


_DRAWS: dict[str, Callable[[random.Random, Language, Values], str]] = {
    "name": lambda rng, texts, values: _other(rng, texts.sections["names"], values.get("name2")),
    "name2": lambda rng, texts, values: _other(rng, texts.sections["names"], values.get("name")),
    "city": lambda rng, texts, values: _other(rng, texts.sections["cities"], values.get("city2")),
    "city2": lambda rng, texts, values: _other(rng, texts.sections["cities"], values.get("city")),
    "product": lambda rng, texts, _: pick(rng, texts.sections["products"]),
    "number": lambda rng, _texts, _: str(number(rng, 12, 9_999)),
    "hour": lambda rng, _texts, _: f"{number(rng, 5, 21)}:{pick(rng, ('05', '10', '20', '35', '40', '55'))}",
    "date": lambda rng, _texts, _: f"{number(rng, 2001, 2029)}-{number(rng, 1, 12):02d}-{number(rng, 1, 28):02d}",
    "code": lambda rng, _texts, _: f"{pick(rng, 'ABCDEFGHKLMNPRSTUVWXYZ')}-{number(rng, 10_000, 99_999)}",
}


@cache
def language(code: LanguageCode) -> Language:
    """The bundled texts of a language."""
    content = (files("app.synthetic") / "languages" / f"{code}.txt").read_text(encoding="utf-8")
    _, *sections = content.split("=== ")
    lines = {head: tuple(body.strip("\n").split("\n")) for head, body in (s.split("\n", 1) for s in sections)}
    return Language(code, " " if lines["joiner"] == ("space",) else "", lines)
