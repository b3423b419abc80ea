"""Scores by form: does an answer match a pattern, or is it JSON that its schema allows?

Both are bounded, whoever wrote pattern, schema and answer: patterns are RE2's, a schema reaches nothing outside
itself, and what it may cost is counted.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from jsonschema import Draft202012Validator, SchemaError, ValidationError
from jsonschema.validators import extend
from jsonschema_specifications import REGISTRY
from referencing.exceptions import Unresolvable

from app.domain.scoring.patterns import PatternRefused, compiled, matches_whole, occurs
from app.domain.scoring.question import Question
from app.domain.scoring.terms import Quality
from app.domain.strict_json import Flaw, loads_strict

REFERENCES_MAX: Final = 10_000
"""References that one answer may make its schema follow: they alone can make checking exponential."""
_UNREAD: Final = frozenset(
    {"patternProperties", "$dynamicRef", "$recursiveRef", "unevaluatedProperties", "unevaluatedItems"}
)
"""The library would match patterns of its own there, or follow what cannot be counted."""
_NAMED: Final = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})
_VALUES: Final = frozenset({"const", "enum", "default", "examples", "required", "dependentRequired"})


class SchemaTooCostly(ValueError):
    """Checking an answer took more references than are followed."""


def regex(text: str, question: Question, quality: Quality) -> float:
    """1 where all of the text, white space around it apart, matches the pattern."""
    return float(matches_whole(quality.pattern or question.pattern or "", text.strip()))


def regex_lack(question: Question, quality: Quality) -> str | None:
    """A pattern, the manifest's or its own."""
    pattern = quality.pattern or question.pattern
    if pattern is None:
        return "structured_outputs.regex, and the manifest states no pattern"
    try:
        compiled(pattern)
    except PatternRefused as error:
        return f"pattern that is matched in bounded time ({error})"
    return None


def json_schema(text: str, question: Question, quality: Quality) -> float:
    """1 where the text is one JSON document that the schema allows."""
    try:
        answer = loads_strict(text.strip().encode(errors="replace"))
    except Flaw:
        return 0.0
    return float(allows(schema_of(question, quality) or {}, answer))


def json_schema_lack(question: Question, quality: Quality) -> str | None:
    """A schema, the manifest's or its own, that can be checked."""
    schema = schema_of(question, quality)
    if schema is None:
        return "structured_outputs.json_schema, and the manifest states no json_schema"
    flaw = next(iter(schema_flaws(schema)), None)
    return None if flaw is None else f"JSON Schema that can be checked ({flaw})"


def schema_of(question: Question, quality: Quality) -> Mapping[str, Any] | None:
    """The manifest's schema, or else the request's own."""
    if quality.json_schema is not None:
        return cast("Mapping[str, Any]", json.loads(quality.json_schema))
    return question.json_schema


def schema_flaws(schema: Mapping[str, Any]) -> Iterator[str]:
    """Why a schema is not used, in words."""
    try:
        Draft202012Validator.check_schema(dict(schema))
    except SchemaError as error:
        yield f"it is no JSON Schema of 2020-12: {error.message[:200]}"
        return
    except RecursionError:
        yield "it is nested too deeply"
        return
    yield from _flaws_below(schema)


def allows(schema: Mapping[str, Any], answer: Any) -> bool:
    """Whether the schema allows the document. One that costs too much, or reaches outside itself, allows nothing."""
    followed = iter(range(REFERENCES_MAX))

    def reference(validator: Any, target: str, instance: Any, _: Any) -> Iterator[ValidationError]:
        if next(followed, None) is None:
            raise SchemaTooCostly
        yield from validator._validate_reference(ref=target, instance=instance)  # noqa: SLF001  (as its own $ref does)

    checks = extend(Draft202012Validator, {"$ref": reference, "pattern": _pattern})
    try:
        return next(iter(checks(dict(schema), registry=REGISTRY).iter_errors(answer)), None) is None
    except (SchemaTooCostly, RecursionError, PatternRefused, Unresolvable):
        return False


def _pattern(_: Any, pattern: str, instance: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not occurs(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _flaws_below(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for item in cast("list[Any]", schema):
            yield from _flaws_below(item)
    elif isinstance(schema, Mapping):
        for key, value in cast("Mapping[str, Any]", schema).items():
            yield from _keyword_flaws(key, value)


def _keyword_flaws(key: str, value: Any) -> Iterator[str]:
    if key in _UNREAD:
        yield f"the keyword {key} is not read"
    elif key == "$ref" and not str(value).startswith("#"):
        yield f"it refers outside itself, to {str(value)[:100]}"
    elif key == "pattern":
        try:
            compiled(str(value))
        except PatternRefused as error:
            yield f"the pattern {str(value)[:100]!r}: {error}"
    elif key in _NAMED and isinstance(value, Mapping):
        for inner in cast("Mapping[str, Any]", value).values():
            yield from _flaws_below(inner)
    elif key not in _VALUES:
        yield from _flaws_below(value)
