"""Completes FastAPI's OpenAPI document: the one shape of errors, what delivery adds to an answer, and examples.

``examples.json`` holds real answers of a small service, recorded by ``tests/api/recording.py``.
"""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import yaml
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from app.errors import MEDIA_TYPE
from app.openapi.problems import EXAMPLES, problem_example

Document = dict[str, Any]

METHODS: Final = ("get", "post", "put", "patch", "delete")
KEY: Final = "Idempotency-Key"
MATCH: Final = "If-None-Match"
FIELDS: Final = "fields"
_PROBLEM: Final = {"$ref": "#/components/schemas/Problem"}
RECORDED: Final = Path(__file__).with_name("examples.json")
_LEFT_BY_FASTAPI: Final = ("HTTPValidationError", "ValidationError")


def install(app: FastAPI) -> None:
    """Let the application answer with the completed document."""

    @cache
    def openapi() -> Document:
        return completed(
            get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        )

    app.openapi = openapi


def completed(document: Document) -> Document:
    """The document with every operation's errors and examples."""
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                _complete(document, path, method, item[method])
    schemas = document["components"]["schemas"]
    for name in _LEFT_BY_FASTAPI:
        schemas.pop(name, None)
    return document


def _complete(document: Document, path: str, method: str, operation: Document) -> None:
    names = {parameter["name"] for parameter in operation.get("parameters", [])}
    answers = operation["responses"]
    _errors(operation, method, names)
    good = [answer for status, answer in answers.items() if status.startswith("2")]
    if FIELDS in names:
        for answer in good:
            _widen(document, answer)
    if MATCH in names:
        tag = {"ETag": {"description": "Strong: other bytes, another tag.", "schema": {"type": "string"}}}
        answers["304"] = {"description": "What you have is still right; no body.", "headers": tag}
        answers["200"].setdefault("headers", {}).update(tag)
    _examples(operation, recorded().get(operation["operationId"], {}))
    for status, answer in answers.items():
        if not status.startswith(("2", "3")):
            answer["content"][MEDIA_TYPE]["example"] = problem_example(int(status), answer["description"], path)


def _errors(operation: Document, method: str, names: set[str]) -> None:
    """Those that the routing itself may give too, all in the one shape."""
    answers = operation["responses"]
    for status in _given(operation, method, names):
        answers.setdefault(str(status), {"description": EXAMPLES[status].title})
    for status, answer in answers.items():
        if not status.startswith(("2", "3")):
            answer["content"] = {MEDIA_TYPE: {"schema": _PROBLEM}}
    answers.get("422", {})["description"] = EXAMPLES[422].title
    if "429" in answers:
        seconds = {"description": "Seconds until it may pass.", "schema": {"type": "integer"}}
        answers["429"]["headers"] = {"Retry-After": seconds}
    if KEY in names:
        replayed = {"description": "`true` where this is an earlier answer.", "schema": {"type": "string"}}
        for status in [status for status in answers if status.startswith("2")]:
            answers[status].setdefault("headers", {})["Idempotency-Replayed"] = replayed


def _given(operation: Document, method: str, names: set[str]) -> Iterator[int]:
    yield 500
    has_body = "requestBody" in operation
    if names or has_body:
        yield 422
    if has_body:
        yield 413
    if method != "get":
        yield 415
    if KEY in names:
        yield 409


def _widen(document: Document, answer: Document) -> None:
    """With ``fields`` an answer has only some of its properties, so none is required."""
    for content in answer.get("content", {}).values():
        whole = content.get("schema")
        if whole:
            content["schema"] = {"anyOf": [whole, _sparse(document, whole)]}


def _sparse(document: Document, schema: Document) -> Document:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        schemas = document["components"]["schemas"]
        sparse = f"{name}Sparse"
        if sparse not in schemas:
            found = dict(schemas[name])
            if name.endswith("Page"):
                items = found["properties"]["items"]
                found["properties"] = {**found["properties"], "items": _sparse(document, items)}
            else:
                found.pop("required", None)
            schemas[sparse] = {**found, "title": sparse, "description": "As far as `fields` asks for it."}
        return {"$ref": f"#/components/schemas/{sparse}"}
    return {**schema, "items": _sparse(document, schema["items"])} if "items" in schema else {"type": "object"}


def _examples(operation: Document, known: Document) -> None:
    """The recorded request and answer, unless the route brings better ones."""
    for status, answer in operation["responses"].items():
        if not status.startswith("2") or "answer" not in known:
            continue
        for content in answer.get("content", {}).values():
            if not {"example", "examples"} & content.keys():
                content["example"] = known["answer"]
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        if "body" in known and not {"example", "examples"} & content.keys():
            body = known["body"]
            content["example"] = yaml.safe_dump(body, sort_keys=False) if kind.endswith("yaml") else body
    for parameter in operation.get("parameters", []):
        value = known.get("parameters", {}).get(parameter["name"])
        if value is not None:
            parameter["example"] = value


@cache
def recorded() -> Document:
    """Operation → an example of its parameters, body and answer."""
    return cast("Document", json.loads(RECORDED.read_bytes())) if RECORDED.is_file() else {}
