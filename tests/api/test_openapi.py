"""The OpenAPI document: every operation is described with an example and every error that it can give."""

import json
import os
from typing import Any

import httpx
import jsonschema
import pytest

from app.db.session import Database
from app.errors import MEDIA_TYPE
from app.main import create_app
from app.openapi.document import METHODS, RECORDED
from app.settings import Settings
from tests.api.recording import Recorded, record

DOCUMENT: dict[str, Any] = create_app().openapi()
OPERATIONS = [
    pytest.param(path, method, item[method], id=item[method]["operationId"])
    for path, item in DOCUMENT["paths"].items()
    for method in METHODS
    if method in item
]


def check(schema: dict[str, Any], example: Any) -> None:
    """The example is what the schema says."""
    whole = {**schema, "components": DOCUMENT["components"]}
    jsonschema.Draft202012Validator(whole).validate(example)


def examples(content: dict[str, Any]) -> list[Any]:
    found = [content["example"]] if "example" in content else []
    return found + [one["value"] for one in content.get("examples", {}).values()]


def test_it_is_openapi_3_1_with_unique_names() -> None:
    assert DOCUMENT["openapi"].startswith("3.1")
    names = [parameter.id for parameter in OPERATIONS]
    assert len(set(names)) == len(names)
    assert not {"HTTPValidationError", "ValidationError"} & DOCUMENT["components"]["schemas"].keys()


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_it_is_described(path: str, method: str, operation: dict[str, Any]) -> None:
    del path, method
    assert operation["summary"]
    assert operation["description"].endswith((".", "?"))
    assert operation["tags"]


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_it_has_an_example_of_what_is_sent_and_of_what_is_answered(
    path: str, method: str, operation: dict[str, Any]
) -> None:
    del path, method
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        assert examples(content), kind
        if kind == "application/json":
            for example in examples(content):
                check(content["schema"], example)
    good = {status: answer for status, answer in operation["responses"].items() if status.startswith("2")}
    assert good
    for status, answer in good.items():
        assert status == "204" or answer.get("content"), status
        for kind, content in answer.get("content", {}).items():
            assert examples(content), (status, kind)
            if kind == "application/json" and content.get("schema"):
                for example in examples(content):
                    check(content["schema"], example)


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_every_error_it_can_give_is_the_one_shape_with_an_example(
    path: str, method: str, operation: dict[str, Any]
) -> None:
    names = {parameter["name"] for parameter in operation.get("parameters", [])}
    answers = operation["responses"]
    wanted = {"500"} | ({"422"} if names or "requestBody" in operation else set())
    if "requestBody" in operation:
        wanted |= {"413", "415"}
    if path.startswith("/api/"):
        wanted |= {"400", "401", "403", "429"}
    if method == "post" and path.startswith("/api/"):
        wanted |= {"409"}
        assert "Idempotency-Key" in names
    if "If-None-Match" in names:
        wanted |= {"304"}
    assert wanted <= set(answers)
    for status, answer in answers.items():
        if not status.startswith(("2", "3")):
            assert set(answer["content"]) == {MEDIA_TYPE}
            (content,) = answer["content"].values()
            check(content["schema"], content["example"])
            assert content["example"]["status"] == int(status)


def shape(value: Any) -> Any:
    """The names and kinds in a document, whatever its values are."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in sorted(value.items())}
    if isinstance(value, list):
        return [shape(item) for item in value]
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


async def test_the_examples_are_what_is_recorded(
    client: httpx.AsyncClient, database: Database, settings: Settings
) -> None:
    recorded: Recorded = await record(client, database, settings)
    if os.environ.get("VERDRAFT_RECORD"):
        RECORDED.write_text(json.dumps(recorded, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    known = json.loads(RECORDED.read_bytes())
    assert set(recorded) == {parameter.id for parameter in OPERATIONS} == set(known)
    for name, entry in recorded.items():
        assert set(shape(entry)) == set(shape(known[name])), name
        assert keys(entry.get("answer")) == keys(known[name].get("answer")), name


def keys(value: Any) -> Any:
    return set(value) if isinstance(value, dict) else type(value)


def test_no_example_holds_a_secret_or_a_place_of_some_machine() -> None:
    text = json.dumps(DOCUMENT)
    places = ("/tmp/", "/home/", "/root/")  # noqa: S108
    assert not [word for word in ("vdt_", "vdw_", "correct horse", *places) if word in text]
