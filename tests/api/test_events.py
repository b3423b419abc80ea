"""The event stream over a real socket."""

import asyncio
import json

import httpx
import pytest

from app.db.notify import Live, LiveSender
from app.db.session import Database
from app.errors import TooManyStreams
from app.experiments.events import Streams
from tests.conftest import LiveServer
from tests.factories import make_trace, manifest_document

JSONL = {"content-type": "application/jsonl"}


def test_a_cancel_is_heard_on_the_stream(live_server: LiveServer) -> None:
    with httpx.Client(base_url=live_server.url, timeout=30) as client:
        client.post("/api/v1/traces", content=make_trace().encode(), headers=JSONL)
        path = client.post("/api/v1/experiments", json=manifest_document()).json()["links"]["self"]
        with client.stream("GET", f"{path}/events") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            lines = stream.iter_lines()
            versions: list[int] = []
            for line in lines:
                if line.startswith("data: "):
                    versions.append(json.loads(line.removeprefix("data: "))["version"])
                    if len(versions) == 2:
                        break
                    client.post(f"{path}/cancel")
        assert versions == [1, 2]
        assert client.get(path).json()["version"] == 2


def test_live_values_of_this_experiment_alone_are_heard_on_the_stream(live_server: LiveServer) -> None:
    url = live_server.settings.database_url.get_secret_value()
    with httpx.Client(base_url=live_server.url, timeout=30) as client:
        client.post("/api/v1/traces", content=make_trace().encode(), headers=JSONL)
        experiment = client.post("/api/v1/experiments", json=manifest_document()).json()
        with client.stream("GET", f"{experiment['links']['self']}/events") as stream:
            lines = stream.iter_lines()
            assert next(line for line in lines if line.startswith("data: "))  # from now on it is heard
            asyncio.run(told(url, "f" * 64, Live("live", '{"of": "another"}')))
            asyncio.run(told(url, experiment["id"], Live("unknown", "{}"), Live("live", '{"of": "this"}')))
            assert next(line for line in lines if line.startswith("event: ")) == "event: live"
            assert json.loads(next(lines).removeprefix("data: ")) == {"of": "this"}


async def test_one_client_does_not_take_every_stream(database: Database) -> None:
    streams = Streams(database, limit=4, of_one_client=2, stream_s=0)
    held = [streams.follow("0" * 64, "10.0.0.1") for _ in range(2)]
    with pytest.raises(TooManyStreams, match="of one client"):
        streams.follow("0" * 64, "10.0.0.1")
    held.append(streams.follow("0" * 64, "10.0.0.2"))
    assert streams.open == 3


async def told(url: str, experiment: str, *messages: Live) -> None:
    sender = LiveSender(url, experiment)
    for message in messages:
        await sender.send(message)
    await sender.close()
