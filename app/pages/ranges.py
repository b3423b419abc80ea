"""The range of each input, read from the manifest's JSON Schema, so that the form states no bound of its own."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from app.domain.manifest import Manifest

BEYOND_INTEREST: Final = 10**12
"""An upper bound that nobody will reach is not told."""


@cache
def range_of(name: str) -> str:
    """``1 to 64`` for an input of a bounded number, named by its manifest field; empty for any other input."""
    return _words(node_of(name)[0])


@cache
def node_of(name: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """A field's part of the schema, and that part as its parent states it, with its default; empty without such."""
    node: Any = Manifest.model_json_schema()
    stated, definitions = node, node["$defs"]
    for step in re.findall(r"[^.\[\]]+", name):
        stated = node.get("items") or node.get("properties", {}).get(step, {})
        node = _plain(stated, definitions)
    return node, stated


def _plain(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a reference refers to, or the alternative that is not null."""
    if "$ref" in node:
        return definitions[node["$ref"].rpartition("/")[2]]
    stated = [part for part in node.get("anyOf", ()) if part.get("type") != "null"]
    return _plain(stated[0], definitions) if stated else node


def _words(node: Mapping[str, Any]) -> str:
    least, above = node.get("minimum"), node.get("exclusiveMinimum")
    most, below = node.get("maximum"), node.get("exclusiveMaximum")
    upper = below if most is None else most
    if upper is None or upper > BEYOND_INTEREST:
        return f"{least:,} or more" if least is not None else ""
    if least is not None and most is not None:
        return f"{least:,} to {most:,}"
    lower = f"above {above:,}" if least is None else f"from {least:,}"
    return f"{lower}, {'below' if most is None else 'at most'} {upper:,}"
