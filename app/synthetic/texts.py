"""Source texts for tasks, with two dials: how long, and how much of a text says again what it has said."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.synthetic.language import Language, Values, fill, number, pick


class Length(StrEnum):
    """How much a task gives to read."""

    SHORT = "short"
    MEDIUM = "medium"
    LONG = "long"

    @property
    def pieces(self) -> tuple[int, int]:
        """The least and the most sentences, lines or facts."""
        return {Length.SHORT: (2, 3), Length.MEDIUM: (6, 10), Length.LONG: (24, 40)}[self]


@dataclass(frozen=True, slots=True)
class Dials:
    """``repetitiveness``: the chance of each further piece to be an exact repetition of an earlier one."""

    length: Length
    repetitiveness: float

    def count(self, rng: random.Random) -> int:
        """How many pieces this text has."""
        return number(rng, *self.length.pieces)

    def repeats(self, rng: random.Random) -> bool:
        """Whether the next piece repeats an earlier one."""
        return rng.random() < self.repetitiveness


def sentences(rng: random.Random, texts: Language, dials: Dials) -> tuple[list[str], Values]:
    """Sentences of one text, and the values that its first sentence was filled with."""
    first = Values(rng, texts)
    said = [fill(texts.pick(rng, "sentences"), first)]
    for _ in range(dials.count(rng) - 1):
        again = dials.repeats(rng)
        said.append(pick(rng, said) if again else fill(texts.pick(rng, "sentences"), Values(rng, texts)))
    return said, first


def rows(rng: random.Random, texts: Language, dials: Dials, columns: Sequence[str]) -> list[dict[str, str]]:
    """Records of a table; a repetition is a whole row."""
    made: list[dict[str, str]] = []
    for _ in range(dials.count(rng)):
        if made and dials.repeats(rng):
            made.append(pick(rng, made))
        else:
            values = Values(rng, texts)
            made.append({column: values[column] for column in columns})
    return made
