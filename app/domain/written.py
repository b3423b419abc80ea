"""How single values are written by hand: a line of text, the word ``none``, ``name value; name value``."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from app.domain.refusals import refusal

TEXT_MAX = 200
_ONE_LINE = r"^[^\x00-\x1f\x7f-][^\x00-\x1f\x7f]*$"


def _one_line(value: str) -> str:
    if re.search(r"[\x00-\x1f\x7f]", value):
        raise refusal("it holds a line break or another control character", "write it on one line")
    if value.startswith("-"):
        message = "it begins with a dash, so that a program could take it for an option"
        raise refusal(message, "begin it with a letter or a digit")
    return value


def positive_zero(value: float) -> float:
    """Minus zero is zero: equal values must have equal digests."""
    return value + 0.0


Text = Annotated[
    str, Field(min_length=1, max_length=TEXT_MAX, json_schema_extra={"pattern": _ONE_LINE}), AfterValidator(_one_line)
]
"""One line that is shown to people and can never be taken for an option."""

Share = Annotated[float, Field(ge=0, le=1), AfterValidator(positive_zero)]
"""A number from 0 to 1."""


def none_word(value: object) -> object:
    """``none`` as the absence that it names."""
    return None if value == "none" else value


def fields_of_line(value: Any, example: str) -> Any:
    """``name value; name value`` as an object; what is not text is left for others to judge."""
    if not isinstance(value, str):
        return value
    fields: dict[str, str] = {}
    for part in value.split(";"):
        name, _, rest = part.strip().partition(" ")
        if not rest.strip():
            raise refusal(f"{part.strip()[:40]!r} is not a name and a value", f"write it in the form {example}")
        if name in fields:
            raise refusal(f"{name} is stated twice", f"write it in the form {example}")
        fields[name] = rest.strip()
    return fields
