"""Whatever a client sends, the API answers as its OpenAPI says and never with a fault of ours: every check there is."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from pydantic import SecretStr
from schemathesis.checks import CHECKS, load_all_checks

from app.access.schemas import TokenWish
from app.access.service import AccessService
from app.db.session import Database
from app.domain.access import Scope
from app.main import create_app
from app.settings import Settings
from tests.api.test_measured import measure
from tests.conftest import NO_BROKER, emptied, serving_live

STREAM = "/api/v1/experiments/{experiment_id}/events"
EXAMPLES = 5
"""Of each operation: the whole must take less than two minutes on a quiet host."""
LEFT_OUT = {
    "positive_data_acceptance": "a manifest or trace that fits its schema may still name what is not here: 422",
    "negative_data_rejection": "unknown query parameters and headers are ignored, as proxies and browsers add some",
}
"""Check → why the API does not promise it."""
load_all_checks()
ALL = {check.__name__: check for check in CHECKS.get_all()}
USED = [check for name, check in ALL.items() if name not in LEFT_OUT]
DOCUMENT = create_app().openapi()
SCHEMA: Any = schemathesis.openapi.from_dict(DOCUMENT)  # schemathesis leaves its own generics unknown
OPERATIONS = [found.ok() for found in SCHEMA.get_all_operations() if found.ok().path != STREAM]


@schemathesis.serializer("application/jsonl", "application/zstd", "application/yaml", "text/csv")
def as_lines(_: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


@dataclass(frozen=True)
class Guarded:
    """A service that wants to know who asks, and an administrator's credential."""

    url: str
    headers: dict[str, str]


@pytest.fixture(scope="module")
def guarded(migrated_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """It holds the experiment that the document's examples are of, so that they are answered with data."""
    home = tmp_path_factory.mktemp("contract")
    chosen = Settings(
        home=home,
        database_url=SecretStr(emptied(migrated_url)),
        redis_url=SecretStr(NO_BROKER),
        runtime_root=home / "runtimes",
        access="required",
        submits_per_minute=100_000,
    )

    async def fill() -> str:
        database = Database(migrated_url, pooled=False)
        await measure(database, chosen.artifact_root)
        wish = TokenWish(name="contract", scope=Scope.ADMIN)
        return (await AccessService(database).create_token(wish)).token

    token = asyncio.run(fill())
    with serving_live(chosen) as live:
        yield Guarded(live.url, {"Authorization": f"Bearer {token}"})


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_answers_keep_the_contract(guarded: Guarded, operation: Any) -> None:
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large),
    )
    @given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        case.call_and_validate(base_url=guarded.url, headers=guarded.headers, checks=USED)

    ask()


def test_every_operation_is_asked() -> None:
    assert len(OPERATIONS) == sum(len(methods) for methods in DOCUMENT["paths"].values()) - 1


def test_every_check_is_used_or_left_out_for_a_reason() -> None:
    assert set(LEFT_OUT) <= set(ALL)
    assert {"not_a_server_error", "status_code_conformance", "response_schema_conformance"} <= set(ALL) - set(LEFT_OUT)
