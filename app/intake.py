"""Decode whole documents that strangers wrote, strictly: what JSON leaves open is refused, not resolved.

The rules are those of ``app.domain.strict_json``; YAML's aliases and own types are errors too.
"""

from collections.abc import Hashable
from typing import Any

import yaml
from pydantic import JsonValue

from app.domain.errors import DomainError, FieldProblem
from app.domain.strict_json import DEPTH_MAX, Flaw, checked, loads_strict, unique


class DocumentRefused(DomainError):
    """The body is not one well-formed document."""

    title = "The document was refused"


def decode_json(content: bytes, field: str = "(document)") -> JsonValue:
    """The JSON document in ``content``; raises ``DocumentRefused`` naming ``field``."""
    try:
        return loads_strict(content)
    except Flaw as flaw:
        raise _refused(field, str(flaw)) from flaw


def decode_yaml(content: bytes, field: str = "(document)") -> JsonValue:
    """The YAML document in ``content``, of JSON's types only; raises ``DocumentRefused`` naming ``field``."""
    try:
        return checked(yaml.load(content, Loader=_StrictLoader))  # noqa: S506  (a SafeLoader made stricter)
    except RecursionError:
        raise _refused(field, f"nested deeper than {DEPTH_MAX} levels") from None
    except (yaml.YAMLError, ValueError) as error:
        raise _refused(field, f"not valid YAML: {' '.join(str(error).split())}") from error


class _StrictLoader(yaml.SafeLoader):
    """No aliases (they can grow without bound) and no key twice."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise Flaw("aliases are not allowed")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        unique([(str(key), None) for key in keys])
        return super().construct_mapping(node, deep=deep)


def _refused(field: str, message: str) -> DocumentRefused:
    return DocumentRefused(FieldProblem(field, message[:300], "send one well-formed document, each key once"))
