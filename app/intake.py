"""Decode documents that strangers wrote, strictly: what JSON leaves open is refused, not resolved.

Duplicate keys, NaN, numbers beyond 64 bits, unstorable text, YAML aliases and deep nesting are errors.
"""

import json
import math
from collections.abc import Hashable
from typing import Any, NoReturn

import yaml
from pydantic import JsonValue

from app.domain.errors import DomainError, FieldProblem

DEPTH_MAX = 32
INTEGER_MAX = 2**63


class DocumentRefused(DomainError):
    """The body is not one well-formed document."""

    title = "The document was refused"


class _Flaw(ValueError):
    """What is wrong with a document, in words."""


def decode_json(content: bytes, field: str = "(document)") -> JsonValue:
    """The JSON document in ``content``; raises ``DocumentRefused`` naming ``field``."""
    try:
        return _checked(json.loads(content, object_pairs_hook=_unique, parse_constant=_no_constant))
    except RecursionError:
        raise _refused(field, f"nested deeper than {DEPTH_MAX} levels") from None
    except ValueError as error:
        raise _refused(field, f"not valid JSON: {error}") from error


def decode_yaml(content: bytes, field: str = "(document)") -> JsonValue:
    """The YAML document in ``content``, of JSON's types only; raises ``DocumentRefused`` naming ``field``."""
    try:
        return _checked(yaml.load(content, Loader=_StrictLoader))  # noqa: S506  (a SafeLoader made stricter)
    except RecursionError:
        raise _refused(field, f"nested deeper than {DEPTH_MAX} levels") from None
    except (yaml.YAMLError, ValueError) as error:
        raise _refused(field, f"not valid YAML: {' '.join(str(error).split())}") from error


class _StrictLoader(yaml.SafeLoader):
    """No aliases (they can grow without bound) and no key twice."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise _Flaw("aliases are not allowed")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        _unique([(str(key), None) for key in keys])
        return super().construct_mapping(node, deep=deep)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Flaw(f"the key {twice!r} occurs twice")
    return document


def _no_constant(name: str) -> NoReturn:
    raise _Flaw(f"{name} is not a number")


def _checked(value: Any, depth: int = 0) -> JsonValue:
    if depth > DEPTH_MAX:
        raise RecursionError
    if isinstance(value, dict):
        return {_text(key): _checked(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_checked(item, depth + 1) for item in value]
    return _text(value) if isinstance(value, str) else _scalar(value)


def _scalar(value: Any) -> JsonValue:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and -INTEGER_MAX <= value < INTEGER_MAX:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, int | float):
        raise _Flaw("a number is not finite or does not fit 64 bits")
    raise _Flaw(f"a value has the type {type(value).__name__}, which JSON does not have; quote it")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Flaw(f"the key {value!r} is not text; quote it")
    if "\x00" in value or any("\ud800" <= c <= "\udfff" for c in value):
        raise _Flaw("a text holds NUL or half of a surrogate pair")
    return value


def _refused(field: str, message: str) -> DocumentRefused:
    return DocumentRefused(FieldProblem(field, message[:300], "send one well-formed document, each key once"))
