"""Does an answer run in circles? Found at its end, where a loop that nothing stops must be.

Repetition is no loop by itself: tables, lists and copied prompts repeat as well. So a loop must have caught most of
an answer's second half, come round often, and not be what the reference repeats.
"""

import re
from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple

ROUNDS_MIN: Final = 4
TOKENS_MIN: Final = 16
CHARACTERS_MIN: Final = 64
PERIOD_SHARE_MAX: Final = 4
"""A period comes round this often at least, so that longer ones need not be looked for."""
PERIOD_MAX: Final = 512
CAUGHT_MIN: Final = 0.4
"""Share of the answer that its last loop takes up."""
GRAM: Final = 4
REPEATED_MIN: Final = 0.7
"""Share of an answer's word groups that were there before: loops that wander."""
GRAMS_MIN: Final = 48
SENTENCE_MIN: Final = 5
"""Words of a round in which only numbers change."""
_UNIT: Final = re.compile(r"\w+|[^\w\s]")
_WORD: Final = re.compile(r"[^\W\d_]+")
_SPACES_MIN: Final = 0.05
"""Of fewer spaces a character, a text is taken sign by sign."""


class Loop(NamedTuple):
    """What comes round at the end of a sequence: how long a round is, and how many units all rounds take up."""

    period: int
    length: int

    @property
    def rounds(self) -> float:
        """How often it comes round."""
        return self.length / self.period


def loop_at_end(units: Sequence[Hashable], shortest: int = TOKENS_MIN) -> Loop | None:
    """The longest loop that the sequence ends in; ``None`` where there is none worth the name.

    A run of ``length`` units has period ``p`` where each equals the one ``p`` before it (Knuth, Morris and Pratt's
    borders, of the reversed sequence, in one pass).
    """
    tail = list(reversed(units))
    best: Loop | None = None
    for length, border in enumerate(_borders(tail), 1):
        period = length - border
        if period <= PERIOD_MAX and length >= max(shortest, ROUNDS_MIN * period):
            best = Loop(period, length)  # longer runs come later
    return best


def is_caught(units: Sequence[Hashable], shortest: int = TOKENS_MIN) -> bool:
    """Whether a loop at the end takes up so much of the sequence that little else is said."""
    found = loop_at_end(units, shortest)
    return found is not None and found.length >= CAUGHT_MIN * len(units)


def repeated_share(text: str) -> float:
    """Share of groups of four words and marks that occurred before; 0 of a short text."""
    units = units_of(text)
    grams = [tuple(units[at : at + GRAM]) for at in range(len(units) - GRAM + 1)]
    return 1 - len(set(grams)) / len(grams) if len(grams) >= GRAMS_MIN else 0.0


def counts_on(text: str) -> bool:
    """Whether a text is caught in a sentence that only its numbers change: rows of figures have fewer words."""
    words = _WORD.findall(text)
    found = loop_at_end(words, ROUNDS_MIN * SENTENCE_MIN)
    return found is not None and found.period >= SENTENCE_MIN and found.length >= CAUGHT_MIN * len(words)


def units_of(text: str) -> list[str]:
    """Words and marks; signs one by one where a script has no spaces."""
    found = _UNIT.findall(text)
    return found if text.count(" ") + text.count("\n") >= _SPACES_MIN * len(text) else list("".join(found))


def is_looping(tokens: Sequence[int], text: str, *, ended: bool, reference: str | None = None) -> bool:
    """Whether an answer is caught in a loop. One that ``ended`` by itself got out of whatever it repeated."""
    if ended:
        return False
    return (is_caught(tokens) or _repeats(text)) and not (reference is not None and _repeats(reference))


def _repeats(text: str) -> bool:
    return is_caught(text.rstrip(), CHARACTERS_MIN) or counts_on(text) or repeated_share(text) >= REPEATED_MIN


def _borders(units: Sequence[Hashable]) -> list[int]:
    """Of each beginning, the length of its longest proper beginning that it also ends in."""
    borders = [0] * len(units)
    for at in range(1, len(units)):
        length = borders[at - 1]
        while length and units[at] != units[length]:
            length = borders[length - 1]
        borders[at] = length + 1 if units[at] == units[length] else 0
    return borders
