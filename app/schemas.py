"""JSON Schemas of the formats, generated from the types: ``python -m app.schemas`` rewrites ``schemas/``.

``manifest`` is the frozen form; ``manifest-written`` also takes what people may write instead (docs/manifest.md).
"""

import json
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from app.bundle.index import BundleIndex
from app.domain.evidence import ExperimentEvidence
from app.domain.grid import AXES
from app.domain.layout import SINGLE_ARM
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
VERSIONS: Final = {"bundle-index": 1}
"""Of the formats that have had a second version."""
WRITTEN: Final = "manifest-written"
NAMES: Final = (*FORMATS, WRITTEN)
_ONE_LINE: Final = ("hardware", "software", "sampling")


def schema(name: str) -> str:
    """The schema of a format as the text of its file; ``KeyError`` for a name that is not in ``NAMES``."""
    content = written_manifest() if name == WRITTEN else FORMATS[name].model_json_schema()
    return json.dumps({"$schema": DIALECT, **content}, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def path_of(name: str) -> Path:
    """Where the schema of a format is kept."""
    return DIRECTORY / f"{name}.v{VERSIONS.get(name, 0)}.json"


def written_manifest() -> dict[str, Any]:
    """A manifest as people write it: one arm at the top level, lists within an arm, single lines, the word none."""
    content: dict[str, Any] = Manifest.model_json_schema()
    fields, arm = content["properties"], content["$defs"]["Arm"]["properties"]
    fields |= {key: arm[key] for key in SINGLE_ARM} | {key: _or(fields[key], {"type": "string"}) for key in _ONE_LINE}
    speculation = content["$defs"]["Speculation"]["properties"]
    speculation["num_speculative_tokens"] = _or(speculation["num_speculative_tokens"], {"const": "none"})
    for key in AXES:
        speculation[key] = _or(speculation[key], {"type": "array", "minItems": 1, "items": speculation[key]})
    content["required"] = [key for key in content["required"] if key != "arms"]
    return {**content, "title": "Manifest as written", "oneOf": [{"required": ["arms"]}, {"required": ["speculation"]}]}


def _or(stated: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [stated, other]}


if __name__ == "__main__":
    DIRECTORY.mkdir(exist_ok=True)
    for format_name in NAMES:
        path_of(format_name).write_text(schema(format_name))
