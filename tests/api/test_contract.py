"""Whatever a client sends, the API answers as its OpenAPI says and never with a fault of ours."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from app.main import create_app
from tests.conftest import LiveServer

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
STREAM = "/api/v1/experiments/{experiment_id}/events"
DOCUMENT = create_app().openapi()
SCHEMA: Any = schemathesis.openapi.from_dict(DOCUMENT)  # schemathesis leaves its own generics unknown
OPERATIONS = [found.ok() for found in SCHEMA.get_all_operations() if found.ok().path != STREAM]


@schemathesis.serializer("application/jsonl")
def as_lines(_: Any, value: Any) -> bytes:
    return str(value).encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_answers_keep_the_contract(live_server: LiveServer, operation: Any) -> None:
    @settings(
        max_examples=8,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much),
    )
    @given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        case.call_and_validate(base_url=live_server.url, checks=CHECKS)

    ask()


def test_every_operation_is_asked() -> None:
    assert len(OPERATIONS) == sum(len(methods) for methods in DOCUMENT["paths"].values()) - 1
