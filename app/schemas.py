"""JSON Schemas of the version 0 formats, generated from the types: ``python -m app.schemas`` rewrites ``schemas/``."""

import json
from pathlib import Path

from pydantic import BaseModel

from app.bundle import BundleIndex
from app.domain.evidence import ExperimentEvidence
from app.domain.manifest import Manifest
from app.domain.observation import RequestObservation
from app.domain.report import Report
from app.domain.trace import TraceHeader, TraceRequest
from app.settings import PROJECT_ROOT

DIRECTORY = PROJECT_ROOT / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
FORMATS: dict[str, type[BaseModel]] = {
    "manifest": Manifest,
    "trace-header": TraceHeader,
    "trace-request": TraceRequest,
    "observation": RequestObservation,
    "evidence": ExperimentEvidence,
    "report": Report,
    "bundle-index": BundleIndex,
}


def schema(name: str) -> str:
    """The schema of a format as the text of its file."""
    document = {"$schema": DIALECT, **FORMATS[name].model_json_schema()}
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def path_of(name: str) -> Path:
    """Where the schema of a format is kept."""
    return DIRECTORY / f"{name}.v0.json"


if __name__ == "__main__":
    DIRECTORY.mkdir(exist_ok=True)
    for format_name in FORMATS:
        path_of(format_name).write_text(schema(format_name))
