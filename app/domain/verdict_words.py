"""The five words inside a sentence: a reader under pressure is told that an arm helps, not that it is HELPS."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from app.domain.vocabulary import VerdictWord

VERBS: Final[Mapping[VerdictWord, str]] = {
    VerdictWord.HELPS: "helps",
    VerdictWord.HURTS: "hurts",
    VerdictWord.EQUIVALENT: "makes no difference",
    VerdictWord.INCONCLUSIVE: "is undecided",
    VerdictWord.INVALID: "is invalid",
}
"""After the name of an arm."""
KINDS: Final[Mapping[VerdictWord, str]] = {
    VerdictWord.HELPS: "faster",
    VerdictWord.HURTS: "slower",
    VerdictWord.EQUIVALENT: "without a difference",
    VerdictWord.INCONCLUSIVE: "undecided",
    VerdictWord.INVALID: "invalid",
}
"""After the number of comparisons that came out so."""


class WordAt(NamedTuple):
    """A word, and where it holds."""

    word: VerdictWord
    workload: str
    load: str


def told(words: Iterable[WordAt]) -> str:
    """``helps on chat at low, code at low and hurts on chat at high``; empty without words."""
    where: dict[VerdictWord, list[str]] = {word: [] for word in VerdictWord}
    for word, workload, load in words:
        where[word].append(f"{workload} at {load}")
    parts = [f"{VERBS[word]} on {', '.join(places)}" for word, places in where.items() if places]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def counted(words: Iterable[VerdictWord]) -> str:
    """``1 slower, 3 undecided``."""
    found = list(words)
    return ", ".join(f"{n} {KINDS[word]}" for word in VerdictWord if (n := found.count(word)))
