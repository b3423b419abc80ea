"""Canonical JSON and content addresses: the one way anything here gets a digest."""

import hashlib
import json
from collections.abc import Mapping

from pydantic import BaseModel, JsonValue


def canonical_json(value: JsonValue | Mapping[str, JsonValue]) -> bytes:
    """UTF-8 JSON with sorted keys and no spaces; NaN and infinity are refused (``ValueError``)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def canonical_model(model: BaseModel) -> bytes:
    """A value as canonical JSON."""
    return canonical_json(model.model_dump(mode="json"))


def digest(content: bytes) -> str:
    """The sha256 of the bytes, as 64 lower-case hex digits."""
    return hashlib.sha256(content).hexdigest()
