"""The event stream over a real socket."""

import json

import httpx

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
