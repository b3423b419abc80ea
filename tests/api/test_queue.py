"""The wake is one empty message in its kind's queue on a real Redis, sent only for what was committed."""

import json
from typing import Any

import httpx
import pytest
import redis
from pydantic import SecretStr

from app.main import create_app
from app.queue import queue_of
from app.settings import Settings
from tests.conftest import client_of
from tests.factories import make_trace, manifest_document

QUEUE = queue_of(manifest_document()["hardware"]["accelerator"])
JSONL = {"content-type": "application/jsonl"}


@pytest.fixture
def broker(redis_url: str) -> redis.Redis:
    """The session's Redis, empty."""
    path, _, number = redis_url.removeprefix("redis+socket://").partition("?virtual_host=")
    connection = redis.Redis(unix_socket_path=path, db=int(number))
    connection.delete(QUEUE)
    return connection


@pytest.fixture
def settings(settings: Settings, redis_url: str) -> Settings:
    return settings.model_copy(update={"redis_url": SecretStr(redis_url)})


def messages(broker: redis.Redis) -> list[dict[str, Any]]:
    waiting: Any = broker.lrange(QUEUE, 0, -1)
    return [json.loads(message) for message in waiting]


async def test_a_new_experiment_wakes_workers_once_and_a_known_one_not(settings: Settings, broker: redis.Redis) -> None:
    async with client_of(create_app(settings), settings) as client:
        await client.post("/api/v1/traces", content=make_trace().encode(), headers=JSONL)
        for _ in range(2):
            await client.post("/api/v1/experiments", json=manifest_document())
    (message,) = messages(broker)
    assert message["headers"]["task"] == "blocks.wake"
    assert message["headers"]["argsrepr"] == "()"
    assert message["content-type"] == "application/json"


async def test_a_refused_manifest_wakes_nobody(client: httpx.AsyncClient, broker: redis.Redis) -> None:
    await client.post("/api/v1/experiments", json=manifest_document())
    assert messages(broker) == []


def test_each_kind_of_accelerator_has_a_queue_with_a_plain_name() -> None:
    assert queue_of("NVIDIA H200") == "blocks.nvidia-h200"
    assert queue_of("AMD EPYC 9654 (96 cores)") != queue_of("AMD EPYC 9554 (96 cores)")
