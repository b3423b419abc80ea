"""A manifest file as the service would read it: strict YAML or JSON, then every rule of the manifest."""

from pathlib import Path

from pydantic import JsonValue

from app.domain.manifest import Manifest, parse_manifest
from app.intake import decode_json, decode_yaml


def read_document(file: Path) -> JsonValue:
    """The document in a file, JSON by its name and YAML otherwise. Raises ``DocumentRefused``."""
    decode = decode_json if file.suffix.lower() == ".json" else decode_yaml
    return decode(file.read_bytes())


def read_manifest(file: Path) -> Manifest:
    """The manifest in a file. Raises ``DocumentRefused`` or ``ManifestRefused``."""
    return parse_manifest(read_document(file))
