"""Lists in a hand-written arm become arms of their own: one for each combination, named after what differs.

``draft`` with k of 2 and 4 becomes ``draft-k2`` and ``draft-k4``. The frozen manifest holds only expanded arms.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Final

from app.domain.errors import FieldProblem

AXES: Final = ("num_speculative_tokens", "rejection_sampling", "draft_sample_method")
"""Keys of ``speculation`` that may be lists (or a line with commas), in the order in which they are named."""
ARMS_MAX: Final = 32


@dataclass(frozen=True, slots=True)
class Expansion:
    """What one written arm becomes. ``problems`` are placed below the arm; their axes are left out of ``arms``."""

    arms: tuple[Any, ...]
    problems: tuple[FieldProblem, ...] = ()


def expand_arm(arm: Any) -> Expansion:
    """The arms that a decoded arm stands for; one that has no list, or no object, stands for itself."""
    speculation: Any = arm.get("speculation") if isinstance(arm, dict) else None
    if not isinstance(speculation, dict):
        return Expansion((arm,))
    axes = {key: values for key in AXES if (values := _listed(speculation.get(key))) is not None}
    problems = tuple(_problems(axes))
    sound = {key: values for key, values in axes.items() if f"speculation.{key}" not in {p.field for p in problems}}
    rest = {**arm, "speculation": {key: value for key, value in speculation.items() if key not in axes}}
    if "speculation" in {p.field for p in problems}:
        return Expansion((_at(rest, {key: values[0] for key, values in sound.items()}),), problems)
    combinations = (dict(zip(sound, values, strict=True)) for values in product(*sound.values()))
    return Expansion(tuple(_at(rest, point) for point in combinations), problems)


def _listed(value: Any) -> list[Any] | None:
    """A list, or ``2, 4, 8`` on one line, as a form's input has it; ``None`` for a single value."""
    if isinstance(value, str) and "," in value:
        return [part.strip() for part in value.split(",")]
    return value if isinstance(value, list) else None


def _problems(axes: Mapping[str, list[Any]]) -> Iterator[FieldProblem]:
    for key, values in axes.items():
        field = f"speculation.{key}"
        if not values:
            yield FieldProblem(field, "the list is empty", "give at least one value, or leave the key out")
        elif not all(isinstance(value, str | int) and not isinstance(value, bool) for value in values):
            yield FieldProblem(field, "a list holds single values only", "write numbers or words, such as [2, 4, 8]")
        elif len({str(value) for value in values}) < len(values):
            yield FieldProblem(field, "a value is listed twice", "list each value once")
    size = prod(len(values) for values in axes.values())
    if size > ARMS_MAX:
        message = f"its lists stand for {size} arms; a manifest has at most {ARMS_MAX}"
        yield FieldProblem("speculation", message, "shorten the lists, or split the experiment")


def _at(arm: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, Any]:
    """The arm at one point of the grid."""
    placed = {**arm, "speculation": {**arm["speculation"], **point}}
    if point and isinstance(arm.get("name"), str):
        placed["name"] = "-".join([arm["name"], *(_label(key, value) for key, value in point.items())])
    return placed


def _label(key: str, value: Any) -> str:
    word = re.sub(r"[^a-z0-9.]+", "-", str(value).lower())
    return f"k{word}" if key == "num_speculative_tokens" else word
