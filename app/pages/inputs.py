"""How a field of the manifest is asked for, read from the manifest's JSON Schema: no list of fields is kept here."""

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Final

from pydantic import BaseModel, JsonValue

from app.domain.grid import AXES
from app.domain.judging import Margins, Slo
from app.domain.proposer import keys_of
from app.domain.serving import Sampling, Serving
from app.domain.vocabulary import Method
from app.pages.ranges import node_of, range_of

SPECULATION: Final = ".speculation."
PLAIN: Final = ("name", "purpose", "engine_below_floor", "blocks", "looks", "schedule_seed")
_PARTS: Final[dict[str, type[BaseModel]]] = {
    "serving": Serving,
    "sampling": Sampling,
    "slo": Slo,
    "margins": Margins,
}
FIELDS: Final = (
    *PLAIN,
    "target_tokenizer",
    *(f"{part}.{field}" for part, model in _PARTS.items() for field in model.model_fields),
)
"""Every field that has an input of its own, beside runtime, target, arms, workloads and loads."""
SHOWN: Final = frozenset({*PLAIN, *_PARTS, "format", "runtime", "target_model", "target_tokenizer", "session_policy"})
"""Parts of a manifest that the form shows whole, or that say one thing only."""
OF_ARM: Final = frozenset({"name", "speculation", "draft_or_speculator"})


_WHOLE: Final = re.compile(r"-?\d{1,20}")
_NUMBER: Final = re.compile(r"-?(\d{1,20}\.?\d{0,20}|\.\d{1,20})(e-?\d{1,2})?")


class Kind(StrEnum):
    """What an input takes."""

    TEXT = "text"
    NUMBER = "number"
    CHOICE = "choice"
    SWITCH = "switch"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class Input:
    """One input: its kind, what may be chosen, and what holds where it is left empty."""

    kind: Kind
    options: tuple[str, ...] = ()
    default: str = ""
    grid: bool = False
    """Several values, with commas between, make an arm of each."""


@cache
def input_of(name: str) -> Input:
    """The input of a field, by the manifest's name of it."""
    node, stated = node_of(name)
    default, grid = text_of(stated.get("default")), name.rpartition(".")[2] in AXES and SPECULATION in name
    if node.get("type") == "boolean":
        return Input(Kind.SWITCH, ("true", "false"), default)
    options = node.get("enum") or ([node["const"]] if "const" in node else [])
    if options:
        return Input(Kind.CHOICE, tuple(map(str, options)), default, grid=grid)
    kinds = {"integer": Kind.NUMBER, "number": Kind.NUMBER, "array": Kind.LIST}
    return Input(kinds.get(str(node.get("type")), Kind.TEXT), (), default, grid=grid)


def inputs_of(method: str) -> tuple[str, ...]:
    """The keys that an arm of this method may state; none for a method that is not known."""
    return keys_of(Method(method)) if method in set(Method) else ()


def text_of(value: Any) -> str:
    """A value as an input shows it; a list of single values on one line."""
    if value is None:
        return ""
    if isinstance(value, list | tuple) and all(isinstance(v, str | int | float) for v in value):
        return ", ".join(map(text_of, value))
    return value if isinstance(value, str) else json.dumps(value)


def value_of(name: str, text: str) -> JsonValue:
    """What an input's text writes into a manifest; text that does not fit its kind is left for others to judge."""
    asked = input_of(name)
    if asked.kind is Kind.LIST or (asked.grid and "," in text):
        return _listed(text) if asked.kind is Kind.LIST else [_single(asked.kind, part) for part in _parts(text)]
    return _single(asked.kind, text)


def _single(kind: Kind, text: str) -> JsonValue:
    if kind is Kind.SWITCH and text in {"true", "false"}:
        return text == "true"
    if kind is Kind.NUMBER and _NUMBER.fullmatch(text):
        return int(text) if _WHOLE.fullmatch(text) else float(text)
    return text


def _listed(text: str) -> JsonValue:
    if text.startswith("["):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return [_single(Kind.NUMBER, part) for part in _parts(text)]


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def words_of(name: str) -> str:
    """What stands below an input: its range, and what holds where it is left empty."""
    asked = input_of(name)
    parts = [range_of(name), f"empty: {asked.default}" if asked.default and not asked.options else ""]
    if asked.grid and asked.kind is Kind.NUMBER:
        parts.append("several (2, 4, 8) make an arm of each")
    return "; ".join(part for part in parts if part)
