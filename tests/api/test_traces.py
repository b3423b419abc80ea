"""Store and read traces; what is malformed is refused line by line."""

import httpx
import pytest
import zstandard

from app.evidence.examples import TRACE
from tests.factories import encode_lines, make_trace, trace_lines

TRACES = "/api/v1/traces"
JSONL = {"content-type": "application/jsonl"}


async def test_a_trace_is_stored_once(client: httpx.AsyncClient) -> None:
    trace = make_trace()
    first = await client.post(TRACES, content=trace.encode(), headers=JSONL)
    second = await client.post(TRACES, content=trace.encode(), headers=JSONL)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    assert (first.json()["digest"], first.json()["name"], first.json()["requests"]) == (trace.digest, "tasks", 3)
    assert (await client.get(TRACES)).json() == [first.json()]
    assert (await client.get(first.headers["location"])).json() == first.json()


async def test_the_openapi_example_is_accepted(client: httpx.AsyncClient) -> None:
    assert (await client.post(TRACES, content=TRACE, headers=JSONL)).status_code == 201


@pytest.mark.parametrize(
    ("content", "field", "message"),
    [
        (b"", "trace", "empty"),
        (encode_lines(trace_lines()[:1]), "trace", "empty"),
        (b"not json\n{}\n", "line 1", "not valid JSON"),
        (b'{"a":1,"a":2}\n{}\n', "line 1", "occurs twice"),
        (b'{"a":NaN}\n{}\n', "line 1", "NaN"),
        (b'{"a":1e999}\n{}\n', "line 1", "not finite"),
        (b'{"a":99999999999999999999}\n{}\n', "line 1", "64 bits"),
        (b'{"a":"\\u0000"}\n{}\n', "line 1", "NUL"),
        (b'{"a":"\\ud800"}\n{}\n', "line 1", "surrogate"),
        (b"[" * 10_000 + b"]" * 10_000 + b"\n{}\n", "line 1", "nested"),
        (b"\xff\xfe\n{}\n", "line 1", "not valid JSON"),
        (encode_lines(trace_lines(surprise=1)), "line 2: surprise", "unknown"),
        (encode_lines(trace_lines(max_tokens=0)), "line 2: max_tokens", "greater than"),
        (encode_lines(trace_lines(load="nowhere")), "line 2: load", "not in the header"),
        (encode_lines(trace_lines(request_id="same")), "request_id", "twice"),
    ],
)
async def test_a_bad_trace_is_refused_by_line_and_field(
    client: httpx.AsyncClient, content: bytes, field: str, message: str
) -> None:
    answer = await client.post(TRACES, content=content, headers=JSONL)
    assert answer.status_code == 422
    told = {item["field"]: item["message"] for item in answer.json()["problems"]}
    assert message in told[field]
    assert (await client.get(TRACES)).json() == []


async def test_a_packed_trace_is_the_same_trace(client: httpx.AsyncClient) -> None:
    packed = zstandard.compress(make_trace().encode())
    first = await client.post(TRACES, content=packed, headers={"content-type": "application/zstd"})
    assert (first.status_code, first.json()["digest"]) == (201, make_trace().digest)
    assert (await client.post(TRACES, content=make_trace().encode(), headers=JSONL)).status_code == 200


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        (zstandard.compress(b"x" * (120 << 20)), 413, "unpacks to more than"),
        (b"no zstd", 422, "not readable as zstd"),
        (zstandard.compress(make_trace().encode())[:40], 422, ""),
        (zstandard.compress(zstandard.compress(make_trace().encode())), 422, "line 1"),
    ],
    ids=["a bomb", "not zstd", "cut off", "nested"],
)
async def test_a_packed_upload_that_holds_no_trace_is_refused(
    client: httpx.AsyncClient, content: bytes, status: int, words: str
) -> None:
    answer = await client.post(TRACES, content=content, headers={"content-type": "application/zstd"})
    assert answer.status_code == status
    assert words in str(answer.json()["problems"])
    assert (await client.get(TRACES)).json() == []


async def test_an_unknown_digest_is_not_found_and_a_malformed_one_refused(client: httpx.AsyncClient) -> None:
    assert (await client.get(f"{TRACES}/{'0' * 64}")).status_code == 404
    assert (await client.get(f"{TRACES}/nonsense")).status_code == 422
