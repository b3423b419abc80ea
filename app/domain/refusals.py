"""Wrong values in words: what pydantic found and what our own rules say, as one list of field problems.

A rule about one value raises ``refusal``; a rule about several fields collects ``Flaw``s and raises
them together, so that everything wrong is told at once.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from app.domain.errors import FieldProblem

_OURS: Final = "refused"
_GENERAL: Final = "correct the value; docs/manifest.md gives its range"
_REMEDIES: Final = {
    "extra_forbidden": "remove it, or correct its spelling; the fields are listed in docs/manifest.md",
    "missing": "add it; nothing is guessed",
    "string_pattern_mismatch": "write it in the form {pattern}",
    "string_type": "write it as text, in quotes",
    "model_type": "write it as an object: names with values",
    "model_attributes_type": "write it as an object: names with values",
    "tuple_type": "write it as a list",
}
_MESSAGES: Final = {"extra_forbidden": "this key is unknown"}


class Flaw(NamedTuple):
    """Something wrong below a value: where, counted from it; what; and what to do."""

    where: tuple[str | int, ...]
    message: str
    remedy: str


KnownKeys = Callable[[str, tuple[str, ...]], tuple[str, str] | None]
"""An unknown key and the fields it stands in → its own message and remedy, where there are such."""


def refusal(message: str, remedy: str) -> PydanticCustomError:
    """An error for a validator to raise about its own value."""
    return PydanticCustomError(_OURS, "{words}", {"words": message, "remedy": remedy})


def refuse(value: object, flaws: Iterable[Flaw]) -> None:
    """Raise every flaw at its own place below ``value``; nothing happens where there is none."""
    found = [InitErrorDetails(type=refusal(flaw.message, flaw.remedy), loc=flaw.where, input=value) for flaw in flaws]
    if found:
        raise ValidationError.from_exception_data(type(value).__name__, found)


def field_problems(error: ValidationError, known_keys: KnownKeys = lambda _key, _parents: None) -> list[FieldProblem]:
    """Pydantic's errors as our own: a dotted field, what is wrong, what to do."""
    items = [dict(item) for item in error.errors(include_url=False, include_input=False)]
    return [_problem(item, known_keys) for item in items if not _follows(item, items)]


def dotted(where: Iterable[str | int]) -> str:
    """``("arms", 1, "name")`` as ``arms[1].name``; nothing is ``(document)``."""
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in where).lstrip(".")
    return path or "(document)"


def _follows(item: dict[str, Any], items: list[dict[str, Any]]) -> bool:
    """Whether a list counts as too short only because its entries are wrong, which is told of them."""
    where = item["loc"]
    below = (other["loc"] for other in items if len(other["loc"]) > len(where))
    return item["type"] == "too_short" and any(loc[: len(where)] == where for loc in below)


def _problem(item: dict[str, Any], known_keys: KnownKeys) -> FieldProblem:
    where, kind = tuple(item["loc"]), str(item["type"])
    context: dict[str, Any] = item.get("ctx", {})
    if kind == _OURS:
        return FieldProblem(dotted(where), str(context["words"]), str(context["remedy"]))
    parents = tuple(step for step in where[:-1] if isinstance(step, str))
    known = known_keys(str(where[-1]), parents) if kind == "extra_forbidden" else None
    if known is not None:
        return FieldProblem(dotted(where), *known)
    message = _MESSAGES.get(kind, str(item["msg"]).removeprefix("Value error, "))
    remedy = _REMEDIES.get(kind, _GENERAL).format(pattern=context.get("pattern", ""))
    return FieldProblem(dotted(where), message, remedy)
