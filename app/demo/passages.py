"""The demo's open tasks, prose and code, and the passages that both they and the copy tasks are made of.

The passages are our own, in ``passages.txt``; ``$slots`` are filled from the word lists, so that
a modest pool gives many distinct prompts.
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files

from app.synthetic.values import CITIES, COLORS, FIRST_NAMES, IDENTIFIERS, PRODUCTS, WORDS

_SLOT = re.compile(r"\$(city|color|name|product|word|number|a|b|c)\b")


@dataclass(frozen=True, slots=True)
class Passages:
    """Unfilled paragraphs, whole Python functions to be continued, and snippets short enough to be an answer."""

    prose: tuple[str, ...]
    functions: tuple[str, ...]
    snippets: tuple[str, ...]


def read_passages() -> Passages:
    """The bundled passages: three sections, each headed ``=== name``, entries parted by a blank line.

    Inside a class the line after a blank one is indented, so it does not begin an entry.
    """
    _, *sections = (files("app.demo") / "passages.txt").read_text(encoding="utf-8").split("=== ")
    pools = {head: _entries(body) for head, body in (section.split("\n", 1) for section in sections)}
    return Passages(pools["prose"], pools["functions"], pools["snippets"])


def fill(rng: random.Random, passage: str) -> str:
    """Put a value into every slot; the same slot gets the same value throughout, and identifiers differ."""
    a, b, c = rng.sample(IDENTIFIERS, 3)
    values = {
        "city": rng.choice(CITIES),
        "color": rng.choice(COLORS),
        "name": rng.choice(FIRST_NAMES),
        "product": rng.choice(PRODUCTS),
        "word": rng.choice(WORDS),
        "number": str(rng.randint(2, 90)),
        "a": a,
        "b": b,
        "c": c,
    }
    return _SLOT.sub(lambda slot: values[slot[1]], passage)


def prose_opening(rng: random.Random, passages: Passages) -> str:
    """An instruction to continue a paragraph that stops a third to two thirds of the way."""
    words = fill(rng, rng.choice(passages.prose)).split(" ")
    kept = round(len(words) * rng.uniform(0.35, 0.7))
    wanted = rng.choice(("Continue the text:\n", "Continue this paragraph:\n"))
    return wanted + " ".join(words[:kept])


def code_opening(rng: random.Random, passages: Passages) -> str:
    """An instruction to complete a function of which only the first lines are given."""
    lines = fill(rng, rng.choice(passages.functions)).split("\n")
    kept = rng.randint(2, max(2, len(lines) // 2))
    wanted = rng.choice(("Complete the code:\n", "Complete the function:\n", "Continue this Python code:\n"))
    return f"{wanted}```python\n" + "\n".join(lines[:kept]) + "\n```"


OPEN_FAMILIES: dict[str, Callable[[random.Random, Passages], str]] = {"prose": prose_opening, "code": code_opening}


def _entries(section: str) -> tuple[str, ...]:
    return tuple(entry.strip("\n") for entry in re.split(r"\n{2,}(?=\S)", section) if entry.strip())
