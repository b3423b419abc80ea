"""The texts of each language: names, sentences with slots, and how each family words its task."""

import random
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files

from app.synthetic.values import date

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
        return rng.choice(self.sections[section])

    def pairs(self, section: str, separator: str) -> tuple[tuple[str, str], ...]:
        """A section of ``left<separator>right`` lines."""
        parts = (line.partition(separator) for line in self.sections[section])
        return tuple((left, right) for left, _, right in parts)

    def draw(self, rng: random.Random) -> dict[str, str]:
        """A value for every slot; the two names differ, and so do the two cities."""
        name, name2 = rng.sample(self.sections["names"], 2)
        city, city2 = rng.sample(self.sections["cities"], 2)
        return {
            "name": name,
            "name2": name2,
            "city": city,
            "city2": city2,
            "product": self.pick(rng, "products"),
            "number": str(rng.randint(12, 9_999)),
            "hour": f"{rng.randint(5, 21)}:{rng.choice(('05', '10', '20', '35', '40', '55'))}",
            "date": date(rng),
            "code": f"{rng.choice('ABCDEFGHKLMNPRSTUVWXYZ')}-{rng.randint(10_000, 99_999)}",
        }


def fill(template: str, values: dict[str, str]) -> str:
    """The template with its slots filled; a slot without a value raises ``KeyError``."""
    return _SLOT.sub(lambda slot: values[slot[1]], template)


@cache
def language(code: LanguageCode) -> Language:
    """The bundled texts of a language."""
    content = (files("app.synthetic") / "languages" / f"{code}.txt").read_text(encoding="utf-8")
    _, *sections = content.split("=== ")
    lines = {head: tuple(body.strip("\n").split("\n")) for head, body in (s.split("\n", 1) for s in sections)}
    return Language(code, " " if lines["joiner"] == ("space",) else "", lines)
