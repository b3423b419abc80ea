"""The referee itself: what it says departed did depart, and its stamps are between those of whoever talks to it."""

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from typing import Any

import httpx
import pytest

from tests.fakes.servers import StartedServer, null_engine


@pytest.fixture
def port() -> Generator[int, None, None]:
    """Of a null engine on loopback with 20 ms to the first chunk and 5 ms between chunks."""
    argv = (sys.executable, "-m", "worker.replay.null_engine", "--ttft-ms", "20", "--gap-ms", "5")
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline().split()[-1])
        process.kill()


def log_of(port: int) -> list[dict[str, Any]]:
    return httpx.get(f"http://127.0.0.1:{port}/referee").json()


def test_the_kernel_stamps_an_arrival_between_sending_and_the_answer(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.connect()
    before_ns = time.monotonic_ns()
    connection.request("POST", "/v1/completions", json.dumps({"max_tokens": 3}))
    sent_ns = time.monotonic_ns()
    connection.getresponse().read()
    (entry,) = log_of(port)
    assert before_ns <= entry["arrived_ns"] <= sent_ns
    after_ms = [(departed_ns - entry["arrived_ns"]) / 1e6 for departed_ns in entry["departed_ns"]]
    assert [after >= due for after, due in zip(after_ms, (20, 25, 30), strict=True)] == [True] * 3


def test_what_a_client_that_left_did_not_get_never_departed(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as sock:
        body = json.dumps({"null_schedule": [[0, 1], [60_000, 1]]})
        sock.sendall(f"POST /v1/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        while b"data:" not in sock.recv(65536):
            pass
    (entry,) = log_of(port)
    assert (len(entry["departed_ns"]), entry["chunk_tokens"]) == (1, [1])


def test_a_client_that_does_not_read_holds_up_its_own_answer_only(port: int) -> None:
    chunks = 20_000
    body = json.dumps({"null_schedule": [[0, 8]] * chunks})
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.sendall(f"POST /v1/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        while len(log_of(port)) == 0:
            time.sleep(0.01)
        quick = httpx.post(f"http://127.0.0.1:{port}/v1/completions", json={"max_tokens": 2, "stream": False})
        assert quick.json()["usage"]["completion_tokens"] == 2
        stuck = next(entry for entry in log_of(port) if len(entry["chunk_tokens"]) != 1)
        assert len(stuck["departed_ns"]) < chunks
        received = b""
        while not received.endswith(b"0\r\n\r\n"):
            received = received[-10:] + sock.recv(1 << 20)
    assert max(len(entry["departed_ns"]) for entry in log_of(port)) == chunks


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/completions", b"{", 400),
        ("/v1/completions", b"[]", 400),
        ("/v1/chat/completions", b'{"max_tokens":"many"}', 400),
        ("/v1/embeddings", b"{}", 404),
    ],
)
def test_what_it_cannot_answer_it_refuses(port: int, path: str, body: bytes, status: int) -> None:
    answer = httpx.post(f"http://127.0.0.1:{port}{path}", content=body)
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


def test_streams_and_plain_answers_say_the_same() -> None:
    with null_engine() as server:
        plain = _post(server, "/v1/chat/completions", {"max_tokens": 4, "stream": False, "messages": []}).json()
        stream = _post(server, "/v1/chat/completions", {"max_tokens": 4, "messages": []}).text
    events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]
    said = "".join(event["choices"][0]["delta"]["content"] for event in events if event["choices"])
    assert said == plain["choices"][0]["message"]["content"] == " 0 1 2 3"
    assert stream.endswith("data: [DONE]\n\n")
    assert events[-1]["usage"] == plain["usage"]


def _post(server: StartedServer, path: str, body: dict[str, object]) -> httpx.Response:
    with server.client() as client:
        return client.post(path, json=body)
