"""The proxy itself: it adds nothing of its own, and a spoilt answer still agrees with itself."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from app.domain.observation import RequestObservation
from app.domain.vocabulary import Outcome
from tests.fakes.completions import text_of
from tests.fakes.defects import Defect, Kind, Words
from tests.fakes.proxy import proxied
from tests.fakes.raw_server import raw_server
from tests.worker.replay.streams import FIXTURES, LAST_CHUNK, STREAM_HEAD, event, exchange, recorded_reads
from worker.replay.response import observe

PLAIN = (FIXTURES / "ngram_nonstream_response.json").read_bytes()
CHAT = (FIXTURES / "chat_response.json").read_bytes()
CHARACTERS: Words = lambda token_ids: "".join(chr(token) for token in token_ids)  # noqa: E731


def plain(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def recorded(name: str) -> tuple[bytes, ...]:
    return tuple(read for _, read in recorded_reads(name))


async def post(socket_path: str, body: dict[str, Any], *, path: str = "/v1/completions") -> bytes:
    """All that is sent back until the connection is closed."""
    text = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: e\r\nX-Request-Id: r\r\nContent-Length: {len(text)}\r\n\r\n"
    reader, writer = await asyncio.open_unix_connection(socket_path)
    writer.write(head.encode() + text)
    answer = await reader.read(-1)
    writer.close()
    return answer


async def through(
    tmp_path: Path, answer: Sequence[bytes], defect: Defect, words: Words = text_of, *, path: str = "/v1/completions"
) -> bytes:
    async with raw_server(f"{tmp_path}/e", {"r": answer}), proxied(f"{tmp_path}/e", f"{tmp_path}/s", defect, words):
        return await post(f"{tmp_path}/s", {"temperature": 0.0}, path=path)


async def seen(
    tmp_path: Path, answer: Sequence[bytes], defect: Defect, words: Words = CHARACTERS
) -> RequestObservation:
    return observe(exchange(await through(tmp_path, answer, defect, words)))


def stream(*tokens: str, finish_reason: str = "length", stop_reason: str | None = None) -> tuple[bytes, ...]:
    """Pieces of text whose characters are the tokens, one event each."""
    events: list[bytes] = []
    for number, text in enumerate(tokens, start=1):
        last = {"finish_reason": finish_reason, "stop_reason": stop_reason} if number == len(tokens) else {}
        choice = {"index": 0, "text": text, "token_ids": [ord(character) for character in text], **last}
        events.append(event({"choices": [choice]}))
    count = sum(map(len, tokens))
    usage = {"prompt_tokens": 2, "completion_tokens": count, "total_tokens": 2 + count}
    return (STREAM_HEAD, *events, event({"choices": [], "usage": usage}), event("[DONE]"), LAST_CHUNK)


ANSWERS = {
    "stream": recorded("draft_model_stream.sse.txt"),
    "plain": (plain(PLAIN),),
    "chat": (plain(CHAT)[:700], plain(CHAT)[700:]),
    "error": (plain(b'{"error":"x"}').replace(b"200 OK", b"400 Bad Request"),),
    "torn": recorded("draft_model_stream.sse.txt")[:4],
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize(
    "defect",
    [Defect(), Defect(Kind.TOKEN_SWAPPED, chance=0.0), Defect(Kind.TEMPERATURE_SHIFTED), Defect(Kind.STOP_LEAKED)],
    ids=["none", "chance 0", "greedy is not sampled", "nothing stopped it"],
)
async def test_what_meets_no_defect_passes_byte_for_byte(
    tmp_path: Path, answer: tuple[bytes, ...], defect: Defect
) -> None:
    passed = await through(tmp_path, answer, defect)
    if defect.kind is Kind.NONE or not defect.chance:
        assert passed == b"".join(answer)
    else:  # an answer that is looked at may be cut into other chunks of HTTP, and says the same
        assert observe(exchange(passed)) == observe(exchange(b"".join(answer)))


@pytest.mark.parametrize("defect", [Defect(), Defect(Kind.LAST_DROPPED)], ids=["none", "other routes"])
async def test_other_routes_pass_byte_for_byte(tmp_path: Path, defect: Defect) -> None:
    answer = (plain(b'{"choices":[{"index":0,"token_ids":[1],"finish_reason":"stop"}]}'),)
    assert await through(tmp_path, answer, defect, path="/tokenize") == answer[0]


async def asked(tmp_path: Path, defect: Defect, temperature: float) -> bytes:
    """The request as the server behind the proxy gets it."""
    got: list[bytes] = []

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(await reader.read(1 << 16))
        writer.close()

    server = await asyncio.start_unix_server(keep, f"{tmp_path}/e")
    async with server, proxied(f"{tmp_path}/e", f"{tmp_path}/s", defect, text_of):
        await post(f"{tmp_path}/s", {"prompt": [1, 2], "temperature": temperature, "seed": 7})
    return got[0]


@pytest.mark.parametrize(
    ("defect", "temperature", "told"),
    [
        (Defect(), 1.0, 1.0),
        (Defect(Kind.TEMPERATURE_SHIFTED), 1.0, 1.05),
        (Defect(Kind.TEMPERATURE_SHIFTED), 0.0, 0.0),
        (Defect(Kind.ARGMAX_ACCEPTED), 0.7, 0.0),
        (Defect(Kind.ARGMAX_ACCEPTED, chance=0.0), 0.7, 0.7),
        (Defect(Kind.TOKEN_SWAPPED), 1.0, 1.0),
    ],
)
async def test_sampling_is_changed_and_the_rest_of_the_request_is_not(
    tmp_path: Path, defect: Defect, temperature: float, told: float
) -> None:
    head, _, body = (await asked(tmp_path, defect, temperature)).partition(b"\r\n\r\n")
    assert json.loads(body) == {"prompt": [1, 2], "temperature": pytest.approx(told), "seed": 7}
    assert head == b"POST /v1/completions HTTP/1.1\r\nHost: e\r\nX-Request-Id: r\r\nContent-Length: %d" % len(body)


@pytest.mark.parametrize("cut", [(12,), (3, 4, 5), (1,) * 12])
async def test_one_token_is_swapped_with_its_text(tmp_path: Path, cut: tuple[int, ...]) -> None:
    letters = iter("abcdefghijkl")
    pieces = ["".join(next(letters) for _ in range(length)) for length in cut]
    told = await seen(tmp_path, stream(*pieces), Defect(Kind.TOKEN_SWAPPED, position=5))
    assert told.outcome is Outcome.SUCCESS
    assert told.text == "abcdegghijkl"
    assert told.token_ids == tuple(map(ord, told.text))


async def test_an_answer_too_short_for_the_defect_is_as_it_was(tmp_path: Path) -> None:
    told = await seen(tmp_path, stream("ab", "cd"), Defect(Kind.TOKEN_SWAPPED, position=4))
    assert (told.text, told.outcome) == ("abcd", Outcome.SUCCESS)


@pytest.mark.parametrize("pieces", [("ab", "cd"), ("abc", "d")])
async def test_the_last_token_is_gone_from_text_ids_and_usage(tmp_path: Path, pieces: tuple[str, ...]) -> None:
    told = await seen(tmp_path, stream(*pieces), Defect(Kind.LAST_DROPPED))
    assert (told.outcome, told.text, told.token_ids) == (Outcome.SUCCESS, "abc", (97, 98, 99))
    assert (told.completion_tokens, told.finish_reason) == (3, "length")


async def test_the_stop_string_follows_the_text(tmp_path: Path) -> None:
    answer = stream("ab", "cd", finish_reason="stop", stop_reason="STOP")
    told = await seen(tmp_path, answer, Defect(Kind.STOP_LEAKED))
    assert (told.outcome, told.text, told.finish_reason) == (Outcome.SUCCESS, "abcdSTOP", "stop")
    assert len(told.token_ids) == told.completion_tokens == 4


@pytest.mark.parametrize(("before", "after"), [("stop", "length"), ("length", "stop")])
async def test_the_finish_reason_is_the_other_one(tmp_path: Path, before: str, after: str) -> None:
    told = await seen(tmp_path, stream("ab", finish_reason=before), Defect(Kind.FINISH_CHANGED))
    assert (told.outcome, told.text, told.finish_reason) == (Outcome.SUCCESS, "ab", after)


@pytest.mark.parametrize("body", [PLAIN, CHAT], ids=["completion", "chat"])
@pytest.mark.parametrize("kind", [Kind.TOKEN_SWAPPED, Kind.LAST_DROPPED, Kind.FINISH_CHANGED])
async def test_whole_answers_are_spoilt_alike(tmp_path: Path, body: bytes, kind: Kind) -> None:
    was = observe(exchange(plain(body)))
    told = await seen(tmp_path, (plain(body),), Defect(kind, position=3), lambda token_ids: f" {list(token_ids)}")
    assert told.outcome is Outcome.SUCCESS
    differs = [
        was.token_ids[3] != told.token_ids[3],
        was.token_ids[:-1] == told.token_ids,
        was.finish_reason != told.finish_reason,
    ]
    assert differs == [kind is k for k in (Kind.TOKEN_SWAPPED, Kind.LAST_DROPPED, Kind.FINISH_CHANGED)]


async def test_only_requests_that_share_the_server_are_spoilt(tmp_path: Path) -> None:
    defect = Defect(Kind.FINISH_CHANGED, only_concurrent=True)
    answer = stream(*"abcdefghijklmnopqrstuvwxyz")
    async with raw_server(f"{tmp_path}/e", {"r": answer}), proxied(f"{tmp_path}/e", f"{tmp_path}/s", defect, text_of):
        alone = await post(f"{tmp_path}/s", {})
        together = await asyncio.gather(*(post(f"{tmp_path}/s", {}) for _ in range(3)))
    assert observe(exchange(alone)).finish_reason == "length"
    assert "stop" in {observe(exchange(one)).finish_reason for one in together}


async def test_some_requests_are_spoilt_by_chance_and_the_same_ones_by_the_same_seed(tmp_path: Path) -> None:
    async def reasons(seed: int) -> list[str | None]:
        defect = Defect(Kind.FINISH_CHANGED, chance=0.5, seed=seed)
        server = raw_server(f"{tmp_path}/e", {"r": stream("ab")})
        async with server, proxied(f"{tmp_path}/e", f"{tmp_path}/s", defect, text_of) as proxy:
            told = [observe(exchange(await post(f"{tmp_path}/s", {}))).finish_reason for _ in range(20)]
        assert proxy.spoilt == told.count("stop")
        return told

    once = await reasons(1)
    assert 0 < once.count("stop") < 20
    assert once == await reasons(1) != await reasons(2)


async def test_without_a_server_behind_it_the_connection_is_closed(tmp_path: Path) -> None:
    async with proxied(f"{tmp_path}/none", f"{tmp_path}/s", Defect(), text_of):
        with suppress(ConnectionResetError):
            assert await post(f"{tmp_path}/s", {}) == b""
