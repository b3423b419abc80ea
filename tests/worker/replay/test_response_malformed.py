"""Streams that are broken: each has its outcome, none raises, none is a success with something missing."""

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.observation import RequestObservation
from app.domain.vocabulary import Outcome
from tests.worker.replay.streams import (
    CHAT,
    DONE,
    LAST_CHUNK,
    STREAM_HEAD,
    STREAMS,
    TOOLS,
    Stream,
    exchange,
    http_chunk,
    made,
    sse,
)
from tests.worker.replay.test_response_cuts import pieces, without_stamps
from worker.replay.exchange import Ending
from worker.replay.response import AnswerReader, observe

INT64 = range(-(2**63), 2**63)
TEXT = made(
    {"text": "a", "token_ids": [1]},
    {"text": "bé", "token_ids": [2, 3]},
    {"text": "c", "token_ids": [4], "finish_reason": "stop"},
    chats=False,
)
FIRST, SECOND, LAST, USAGE, _ = TEXT.events


def assert_storable(seen: RequestObservation) -> None:
    """Arrow and Postgres hold 64-bit integers and UTF-8; text columns that are no bytes hold no NUL either."""
    numbers = [seen.prompt_tokens, seen.completion_tokens, seen.cached_tokens, seen.queue_time_ns, seen.http_status]
    numbers += [*seen.token_ids, *seen.chunk_tokens, *seen.chunk_ns]
    if seen.speculation is not None:
        told = seen.speculation.model_dump().values()
        numbers += [n for value in told for n in (value if isinstance(value, tuple) else (value,))]
    assert all(n is None or n in INT64 for n in numbers)
    assert all(n is None or n >= 0 for n in numbers)
    assert all(math.isfinite(value) for value in seen.logprobs)
    for text in (seen.text, seen.reasoning, seen.tool_calls, seen.error or "", seen.finish_reason or ""):
        text.encode()
    assert "\x00" not in (seen.finish_reason or "")
    assert sum(seen.chunk_tokens) == len(seen.token_ids)
    assert len(seen.chunk_tokens) == len(seen.chunk_ns)
    assert RequestObservation.model_validate_json(seen.model_dump_json()) == seen


def after_the_first(event: bytes) -> RequestObservation:
    """A good chunk, then this event, then everything else that a success needs."""
    return observe(exchange(Stream((FIRST, event, SECOND, LAST, USAGE, DONE)).wire))


def chunk_with(**changes: Any) -> bytes:
    return sse({"choices": [{"index": 0, "text": "x", "token_ids": [9], **changes}]})


def last_with(**changes: Any) -> bytes:
    return sse({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 4}, **changes})


def raw(text: str) -> bytes:
    return f"data: {text}\n\n".encode()


def raw_choice(members: str) -> bytes:
    return raw(f'{{"choices":[{{"index":0,"text":"x",{members}}}]}}')


DEEP = 100_000

WRONG: dict[str, bytes] = {
    "token ids as text": chunk_with(token_ids=["9"]),
    "a token id with a fraction": chunk_with(token_ids=[9.0]),
    "a token id that is a truth": chunk_with(token_ids=[True]),
    "a token id that is null": chunk_with(token_ids=[9, None]),
    "a negative token id": chunk_with(token_ids=[-1]),
    "a token id beyond 64 bits": chunk_with(token_ids=[2**63]),
    "a token id of a thousand digits": raw_choice(f'"token_ids":[{"9" * 1000}]'),
    "nested token ids": chunk_with(token_ids=[[9]]),
    "token ids that are a number": chunk_with(token_ids=9),
    "text that is a number": chunk_with(text=5),
    "a choice without words": sse({"choices": [{"index": 0, "token_ids": [9]}]}),
    "two choices": sse({"choices": [{"index": 0, "text": "x", "token_ids": [9]}] * 2}),
    "the second choice": chunk_with(index=1),
    "choices that are an object": sse({"choices": {"0": {}}}),
    "choices that are null": sse({"choices": None}),
    "no choices": sse({"object": "text_completion"}),
    "a delta that is text": sse({"choices": [{"index": 0, "delta": "x"}]}),
    "content that is a list": sse({"choices": [{"index": 0, "delta": {"content": ["x"]}}]}),
    "a tool call at a negative place": sse({"choices": [{"delta": {"tool_calls": [{"index": -1}]}}]}),
    "a tool call that is text": sse({"choices": [{"delta": {"tool_calls": ["f"]}}]}),
    "arguments that are an object": sse({"choices": [{"delta": {"tool_calls": [{"function": {"arguments": {}}}]}}]}),
    "a finish reason with NUL": chunk_with(finish_reason="st\x00op"),
    "a finish reason without end": chunk_with(finish_reason="x" * 65),
    "a finish reason that is a number": chunk_with(finish_reason=1),
    "a log probability that is no number": raw_choice('"logprobs":{"token_logprobs":[NaN]}'),
    "an infinite log probability": raw_choice('"logprobs":{"content":[{"logprob":-Infinity}]}'),
    "a log probability too large for a float": raw_choice('"logprobs":{"token_logprobs":[1e999]}'),
    "a log probability that is text": chunk_with(logprobs={"content": [{"logprob": "-0.5"}]}),
    "a negative usage": last_with(usage={"prompt_tokens": -1}),
    "a usage beyond 64 bits": last_with(usage={"completion_tokens": 10**30}),
    "a usage that is text": last_with(usage={"completion_tokens": "4"}),
    "negative cached tokens": last_with(usage={"prompt_tokens_details": {"cached_tokens": -1}}),
    "a queue time that is no number": raw('{"choices":[],"metrics":{"queue_time_ms":NaN}}'),
    "an infinite queue time": raw('{"choices":[],"metrics":{"queue_time_ms":Infinity}}'),
    "a negative queue time": last_with(metrics={"queue_time_ms": -0.1}),
    "a queue time of ages": last_with(metrics={"queue_time_ms": 1e300}),
    "half of the counts of speculation": last_with(metrics={"speculative_decoding": {"num_spec_steps": 1}}),
    "negative counts of speculation": last_with(
        metrics={"speculative_decoding": {"num_spec_steps": 1, "num_draft_tokens": -3, "num_accepted_draft_tokens": 0}}
    ),
    "an unnamed error": sse({"error": {}}),
    "an error that is empty text": sse({"error": ""}),
    "an error that is a list": sse({"error": ["no"]}),
    "an error event of another form": b'event: error\ndata: {"detail":"no"}\n\n',
    "an error event that is no JSON": b"event: error\ndata: \xff broken\n\n",
    "no JSON": raw("{broken"),
    "a number": raw("5"),
    "null": raw("null"),
    "a list": raw("[]"),
    "nothing": raw(""),
    "JSON that ends early": FIRST[:-4] + b"\n\n",
    "two payloads in one event": FIRST[:-2] + b"," + FIRST[6:],
    "two lines of data": FIRST[:-1] + SECOND,
    "half of a surrogate pair": raw_choice('"finish_reason":null,"token_ids":[9]').replace(b'"x"', b'"\\ud800"'),
    "the wrong half of a surrogate pair": raw_choice('"token_ids":[9]').replace(b'"x"', b'"\\udc00 "'),
    "broken UTF-8": chunk_with().replace(b'"x"', b'"\xc3"'),
    "a surrogate in UTF-8": chunk_with().replace(b'"x"', b'"\xed\xa0\x80"'),
    "overlong UTF-8": chunk_with().replace(b'"x"', b'"\xc0\x80"'),
    "a control character": chunk_with().replace(b'"x"', b'"\x00"'),
    "lists without end": raw("[" * DEEP),
    "objects without end": raw('{"a":' * DEEP),
    "deep where nobody looks": raw_choice(f'"extra":{"[" * DEEP}{"]" * DEEP}'),
    "another end": DONE,
}


@pytest.mark.parametrize("name", WRONG)
def test_an_event_that_is_no_part_of_an_answer_is_a_stream_error(name: str) -> None:
    seen = after_the_first(WRONG[name])
    assert (seen.outcome, seen.token_ids, seen.text) == (Outcome.STREAM_ERROR, (1,), "a")
    assert seen.error
    assert len(seen.error) < 600
    assert_storable(seen)


@pytest.mark.parametrize("name", WRONG)
def test_it_is_the_same_error_byte_by_byte(name: str) -> None:
    event = WRONG[name]
    if len(event) > 10_000:
        event = event[:5_000] + event[-2:]
    stream = Stream((FIRST, event, SECOND, LAST, USAGE, DONE))
    once = observe(exchange(stream.wire))
    assert without_stamps(observe(exchange(*(bytes([b]) for b in stream.wire)))) == without_stamps(once)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"detail":"no"}', '{"detail":"no"}'),
        (b'{"error":{"message":"no"}}', "no"),
        (b'{"choices":[]}', '{"choices":[]}'),
    ],
)
def test_an_event_of_the_type_error_is_one_in_the_words_of_the_server(data: bytes, words: str) -> None:
    assert after_the_first(b"event: error\ndata: " + data + b"\n\n").error == words


LOST_OR_TWICE: dict[str, tuple[bytes, ...]] = {
    "a chunk is lost": (FIRST, LAST, USAGE, DONE),
    "a chunk comes twice": (FIRST, SECOND, SECOND, LAST, USAGE, DONE),
    "a chunk comes after the finish reason": (FIRST, LAST, SECOND, USAGE, DONE),
    "the last chunk comes twice": (FIRST, SECOND, LAST, LAST, USAGE, DONE),
    "the usage counts less": (FIRST, SECOND, LAST, last_with(usage={"completion_tokens": 3}), DONE),
    "one chunk has no token ids": (FIRST, sse({"choices": [{"text": "x"}]}), SECOND, LAST, USAGE, DONE),
    "it goes on after its end": (FIRST, SECOND, LAST, USAGE, DONE, FIRST),
    "it ends twice": (FIRST, SECOND, LAST, USAGE, DONE, DONE),
}


@pytest.mark.parametrize("name", LOST_OR_TWICE)
def test_what_was_lost_or_came_twice_is_no_success(name: str) -> None:
    seen = observe(exchange(Stream(LOST_OR_TWICE[name]).wire))
    assert seen.outcome is Outcome.STREAM_ERROR
    assert_storable(seen)


@pytest.mark.parametrize(
    ("events", "missing"),
    [
        ((), "finish_reason"),
        ((FIRST, SECOND, USAGE, DONE), "finish_reason"),
        ((FIRST, SECOND, LAST, USAGE), "[DONE]"),
        ((FIRST, SECOND, LAST, USAGE, DONE[:-1]), "[DONE]"),
        ((FIRST, SECOND, LAST, USAGE, b"data: [done]"), "[DONE]"),
        ((FIRST, SECOND, LAST, USAGE, b"Data: [DONE]\n\n"), "[DONE]"),
    ],
)
def test_an_answer_without_its_end_is_truncated(events: tuple[bytes, ...], missing: str) -> None:
    seen = observe(exchange(Stream(events).wire))
    assert seen.outcome is Outcome.TRUNCATED
    assert missing in (seen.error or "")


HARMLESS: dict[str, Callable[[bytes], bytes]] = {
    "CRLF": lambda body: body.replace(b"\n", b"\r\n"),
    "CR": lambda body: body.replace(b"\n", b"\r"),
    "comments": lambda body: b": hello\n\n" + body.replace(b"\n\n", b"\n: ping\n\n:\n\n"),
    "a byte order mark": lambda body: b"\xef\xbb\xbf" + body,
    "no space after the colon": lambda body: body.replace(b"data: ", b"data:"),
    "other fields": lambda body: body.replace(b"data: ", b"id: 5\nretry: 1\nfoo\ndata: "),
    "blank lines": lambda body: b"\n\n" + body.replace(b"\n\n", b"\n\n\n\n"),
    "members of later versions": lambda body: body.replace(b'"created":1', b'"created":1,"new":[{"a":[null]}]'),
    "escapes": lambda body: body.replace("é".encode(), rb"\u00e9"),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_other_ways_to_write_the_same_answer_are_the_same(name: str) -> None:
    body = HARMLESS[name](b"".join(TEXT.events))
    once = without_stamps(observe(exchange(TEXT.wire)))
    whole = STREAM_HEAD + http_chunk(body) + LAST_CHUNK
    assert without_stamps(observe(exchange(whole))) == once
    assert without_stamps(observe(exchange(*(bytes([byte]) for byte in whole)))) == once


def test_nul_in_text_is_text() -> None:
    stream = made({"text": "a\x00b", "token_ids": [1], "finish_reason": "stop"}, chats=False)
    seen = observe(exchange(stream.wire))
    assert (seen.outcome, seen.text) == (Outcome.SUCCESS, "a\x00b")
    assert_storable(seen)


BODY = b"".join(map(http_chunk, TEXT.events)) + LAST_CHUNK
PLAIN = json.dumps({"choices": [{"text": "a", "token_ids": [1], "finish_reason": "stop"}]}).encode()
PLAIN_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(PLAIN)

NOT_HTTP: dict[str, bytes] = {
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n",
    "TLS": b"\x15\x03\x03\x00\x02\x02\x28",
    "HTTP/0.9": b"<html>no</html>",
    "a status of text": b"HTTP/1.1 OK\r\n\r\n",
    "a header with NUL": b"HTTP/1.1 200 OK\r\na: \x00\r\n\r\n",
    "a chunk size that is no number": STREAM_HEAD + b"zz\r\n" + BODY,
    "a negative chunk size": STREAM_HEAD + b"-5\r\nabcde\r\n" + BODY,
    "a chunk size beyond 64 bits": STREAM_HEAD + b"f" * 20 + b"\r\n" + BODY,
    "a chunk size that is too small": STREAM_HEAD + http_chunk(FIRST).replace(b"\r\n", b"0\r\n", 1)[1:] + BODY,
    "a chunk without its end": STREAM_HEAD + http_chunk(FIRST)[:-2] + BODY,
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
    "a length that is no number": b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
    "another protocol from now on": b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nx",
    "garbage after the end": TEXT.wire + b"garbage",
    "the answer twice": TEXT.wire + TEXT.wire,
    "a plain answer twice": (PLAIN_HEAD + PLAIN) * 2,
}


@pytest.mark.parametrize("name", NOT_HTTP)
@pytest.mark.parametrize("ending", [Ending.CLOSED, Ending.COMPLETE])
def test_what_is_not_one_http_answer_is_a_stream_error_whatever_the_cuts(name: str, ending: Ending) -> None:
    once = observe(exchange(NOT_HTTP[name], ending=ending))
    assert once.outcome is Outcome.STREAM_ERROR
    assert (once.error or "").startswith("not HTTP: ")
    assert_storable(once)
    by_bytes = observe(exchange(*(bytes([byte]) for byte in NOT_HTTP[name]), ending=ending))
    assert without_stamps(by_bytes) == without_stamps(once)


def test_a_read_after_the_end_moves_no_stamp() -> None:
    seen = observe(exchange(PLAIN_HEAD + PLAIN, PLAIN_HEAD + PLAIN))
    assert (seen.outcome, seen.token_ids, seen.chunk_ns) == (Outcome.STREAM_ERROR, (1,), (100,))


def test_a_stream_with_a_status_of_failure_is_read_as_the_failure() -> None:
    head = STREAM_HEAD.replace(b"200 OK", b"500 X")
    seen = observe(exchange(head, http_chunk(b'{"error":{"message":"out of memory"}}') + LAST_CHUNK))
    assert (seen.outcome, seen.error) == (Outcome.HTTP_ERROR, "out of memory")


def test_an_announcement_before_the_answer_is_not_the_answer() -> None:
    for early in (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\ncontent-type: text/html\r\n\r\n"):
        assert observe(exchange(early + TEXT.wire)).outcome is Outcome.SUCCESS
        only = observe(exchange(early, ending=Ending.DEADLINE))
        assert (only.outcome, only.http_status) == (Outcome.DEADLINE_MISS, None)


@pytest.mark.parametrize(
    ("head", "ending", "outcome"),
    [
        (b"HTTP/1.1 500 X\r\ncontent-type: text/event-stream\r\n", Ending.COMPLETE, Outcome.HTTP_ERROR),
        (b"HTTP/1.1 204 X\r\n", Ending.COMPLETE, Outcome.HTTP_ERROR),
        (b"HTTP/1.1 302 X\r\nlocation: /\r\n", Ending.COMPLETE, Outcome.HTTP_ERROR),
        (b"HTTP/1.1 503 X\r\n", Ending.DEADLINE, Outcome.HTTP_ERROR),
        (b"HTTP/1.1 200 X\r\n", Ending.COMPLETE, Outcome.TRUNCATED),
        (b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n", Ending.COMPLETE, Outcome.TRUNCATED),
    ],
)
def test_a_status_without_a_body(head: bytes, ending: Ending, outcome: Outcome) -> None:
    seen = observe(exchange(head + b"content-length: 0\r\n\r\n", ending=ending))
    assert seen.outcome is outcome
    assert_storable(seen)


@pytest.mark.parametrize("body", [b"\xff\x00 no", b'{"error":{"message":"' + b"x" * 9000 + b'"}}', b'{"error":5}'])
def test_the_words_of_an_http_error_are_short_and_storable(body: bytes) -> None:
    seen = observe(exchange(b"HTTP/1.1 400 X\r\ncontent-length: %d\r\n\r\n" % len(body) + body))
    assert seen.outcome is Outcome.HTTP_ERROR
    assert seen.error
    assert len(seen.error) <= 500
    assert_storable(seen)


@pytest.mark.parametrize(
    ("ending", "outcome"), [(Ending.DEADLINE, Outcome.DEADLINE_MISS), (Ending.CLOSED, Outcome.TRUNCATED)]
)
def test_a_part_of_a_plain_answer_is_not_broken_json(ending: Ending, outcome: Outcome) -> None:
    assert observe(exchange(PLAIN_HEAD, PLAIN[:-5], ending=ending)).outcome is outcome


def test_the_end_of_an_answer_that_a_later_turn_needs_is_strict_too() -> None:
    reader = AnswerReader()
    reader.feed(1, Stream((FIRST, LAST, USAGE, DONE)).wire)
    assert reader.said(Ending.COMPLETE) is None


def bits(data: st.DataObject, wire: bytes) -> bytes:
    at = data.draw(st.integers(0, len(wire) - 1))
    return wire[:at] + bytes([wire[at] ^ (1 << data.draw(st.integers(0, 7)))]) + wire[at + 1 :]


def part(data: st.DataObject, wire: bytes) -> slice:
    first, last = sorted(data.draw(st.tuples(st.integers(0, len(wire)), st.integers(0, len(wire)))))
    return slice(first, last)


def deletion(data: st.DataObject, wire: bytes) -> bytes:
    gone = part(data, wire)
    return wire[: gone.start] + wire[gone.stop :]


def repetition(data: st.DataObject, wire: bytes) -> bytes:
    twice = part(data, wire)
    return wire[: twice.stop] + wire[twice] + wire[twice.stop :]


def insertion(data: st.DataObject, wire: bytes) -> bytes:
    at = data.draw(st.integers(0, len(wire)))
    return wire[:at] + data.draw(st.binary(min_size=1, max_size=20)) + wire[at:]


def truncation(data: st.DataObject, wire: bytes) -> bytes:
    return wire[: data.draw(st.integers(0, len(wire)))]


DAMAGES = [bits, deletion, repetition, insertion, truncation]
BASES = {"text": TEXT, "chat": CHAT, "tools": TOOLS, "recorded": STREAMS["recorded, the target alone"]}


@given(data=st.data(), base=st.sampled_from(list(BASES)), ending=st.sampled_from(list(Ending)))
def test_one_damage_anywhere_never_raises_and_never_makes_a_success_with_fewer_tokens(
    data: st.DataObject, base: str, ending: Ending
) -> None:
    """A flipped bit inside a number cannot be told from another number; that a token is missing or twice can."""
    wire = BASES[base].wire
    damaged = data.draw(st.sampled_from(DAMAGES))(data, wire)
    cuts = data.draw(st.sets(st.integers(1, 4000), max_size=5))
    seen = observe(exchange(*pieces(damaged, cuts), ending=ending))
    assert_storable(seen)
    if seen.outcome is Outcome.SUCCESS:
        whole = observe(exchange(wire))
        assert (seen.chunk_tokens, seen.finish_reason is None) == (whole.chunk_tokens, False)
    assert without_stamps(observe(exchange(damaged, ending=ending))) == without_stamps(seen)


@given(data=st.data(), base=st.sampled_from(list(BASES)), ending=st.sampled_from(list(Ending)))
def test_any_number_of_damages_never_raises(data: st.DataObject, base: str, ending: Ending) -> None:
    damaged = BASES[base].wire
    for damage in data.draw(st.lists(st.sampled_from(DAMAGES), min_size=2, max_size=6)):
        damaged = damage(data, damaged) if damaged else damaged
    cuts = data.draw(st.sets(st.integers(1, 4000), max_size=5))
    seen = observe(exchange(*pieces(damaged, cuts), ending=ending))
    assert_storable(seen)
    assert without_stamps(observe(exchange(damaged, ending=ending))) == without_stamps(seen)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
NAMES = ["choices", "usage", "metrics", "error", "text", "delta", "message", "token_ids", "logprobs", "content",
         "finish_reason", "tool_calls", "function", "arguments", "index", "speculative_decoding"]  # fmt: skip


@given(
    payload=st.recursive(
        json_values,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
        max_leaves=8,
    )
)
def test_any_json_in_the_place_of_a_payload_has_an_outcome(payload: Any) -> None:
    seen = after_the_first(raw(json.dumps(payload)))
    assert seen.outcome in {Outcome.SUCCESS, Outcome.STREAM_ERROR}
    assert_storable(seen)


@given(garbage=st.binary(max_size=300), ending=st.sampled_from(list(Ending)))
def test_any_bytes_have_an_outcome_and_it_is_no_success(garbage: bytes, ending: Ending) -> None:
    for before in (b"", STREAM_HEAD, PLAIN_HEAD):
        seen = observe(exchange(before + garbage, ending=ending))
        assert seen.outcome is not Outcome.SUCCESS
        assert_storable(seen)
