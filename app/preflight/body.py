"""A manifest as a request's body, JSON or YAML."""

from typing import Any

from fastapi import Request

from app.errors import UnsupportedMediaType
from app.intake import decode_json, decode_yaml

_DECODERS = {
    "application/json": decode_json,
    "application/yaml": decode_yaml,
    "application/x-yaml": decode_yaml,
    "text/yaml": decode_yaml,
}


async def decoded_body(request: Request) -> Any:
    """The request's JSON or YAML document; raises ``UnsupportedMediaType`` or ``DocumentRefused``."""
    media_type = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if media_type not in _DECODERS:
        known = ", ".join(sorted(_DECODERS))
        raise UnsupportedMediaType.of("Content-Type", f"{media_type or 'nothing'} is not read here", f"send {known}")
    return _DECODERS[media_type](await request.body())
