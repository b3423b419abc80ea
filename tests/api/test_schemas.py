"""The JSON Schemas in the repository are what the types say, and real values satisfy them."""

import json
from typing import Any

import jsonschema
import pytest

from app.schemas import NAMES, path_of, schema
from tests.factories import make_manifest, make_observation, trace_lines
from tests.factories_report import sample_report


@pytest.mark.parametrize("name", NAMES)
def test_the_schema_file_is_current(name: str) -> None:
    assert path_of(name).read_text() == schema(name), "run: python -m app.schemas"


def test_no_schema_file_is_left_over() -> None:
    assert {p.name for p in path_of("manifest").parent.glob("*.json")} == {path_of(name).name for name in NAMES}


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("manifest", make_manifest().model_dump(mode="json")),
        ("trace-header", trace_lines()[0]),
        ("trace-request", trace_lines()[1]),
        ("observation", make_observation().model_dump(mode="json")),
        ("report", sample_report().model_dump(mode="json")),
    ],
)
def test_real_values_satisfy_their_schema_and_a_surprise_does_not(name: str, document: dict[str, Any]) -> None:
    validator = jsonschema.Draft202012Validator(json.loads(schema(name)))
    validator.validate(document)
    assert not validator.is_valid(document | {"surprise": 1})
