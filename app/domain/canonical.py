"""Canonical JSON and content addresses: the one way anything here gets a digest."""

import hashlib
import json
from collections.abc import Mapping

from pydantic import JsonValue


def canonical_json(value: JsonValue | Mapping[str, JsonValue]) -> bytes:
    """UTF-8 JSON with sorted keys and no spaces; NaN and infinity are refused (``ValueError``)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def digest(content: bytes) -> str:
    """The sha256 of the bytes, as 64 lower-case hex digits."""
    return hashlib.sha256(content).hexdigest()
