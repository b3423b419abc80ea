"""Real streams cut at every byte: the same answer whatever the cuts, and stamps of the read that completed an event."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.observation import RequestObservation
from app.domain.vocabulary import Outcome
from tests.worker.replay.streams import CHAT, STREAMS, TOOLS, Stream, exchange, recorded
from worker.replay.response import observe

STAMPS = {"chunk_ns", "first_byte_ns", "end_ns"}
FIRST_NS, SECOND_NS = 100, 101


def without_stamps(seen: RequestObservation) -> dict[str, Any]:
    return seen.model_dump(exclude=STAMPS)


def carriers(stream: Stream) -> list[int]:
    """The events with tokens, found with another reader of JSON."""
    payloads = [json.loads(body[6:]) for body in stream.events[:-1]]
    return [i for i, p in enumerate(payloads) if p["choices"] and p["choices"][0].get("token_ids")]


def pieces(whole: bytes, cuts: set[int]) -> list[bytes]:
    edges = [0, *sorted(cut for cut in cuts if cut < len(whole)), len(whole)]
    return [whole[a:b] for a, b in pairwise(edges)]


@pytest.mark.parametrize("name", STREAMS)
def test_a_cut_at_any_byte_moves_stamps_only_and_those_as_it_must(name: str) -> None:
    stream = STREAMS[name]
    wire, once = stream.wire, observe(exchange(stream.wire))
    assert once.outcome is Outcome.SUCCESS
    ends = [stream.ends[index] for index in carriers(stream)]
    for cut in range(1, len(wire)):
        seen = observe(exchange(wire[:cut], wire[cut:]))
        assert without_stamps(seen) == without_stamps(once), cut
        assert seen.chunk_ns == tuple(FIRST_NS if end <= cut else SECOND_NS for end in ends), cut


@pytest.mark.parametrize("name", ["draft_model_stream.sse.txt", "target_stream.sse.txt"])
def test_a_whole_recorded_stream_byte_by_byte(name: str) -> None:
    stream = recorded(name)
    once = observe(exchange(stream.wire))
    seen = observe(exchange(*(bytes([byte]) for byte in stream.wire)))
    assert (once.outcome, once.completion_tokens) == (Outcome.SUCCESS, len(once.token_ids))
    assert without_stamps(seen) == without_stamps(once)
    assert seen.chunk_ns == tuple(FIRST_NS + stream.ends[index] - 1 for index in carriers(stream))


@given(
    name=st.sampled_from(list(STREAMS)),
    sizes=st.lists(st.integers(1, 400), max_size=30),
    cuts=st.sets(st.integers(1, 8000), max_size=30),
)
def test_neither_http_chunks_nor_reads_say_where_an_event_ends(name: str, sizes: list[int], cuts: set[int]) -> None:
    """Chunks of HTTP may hold half a character, several events or a part of one, and reads cut those again."""
    stream = STREAMS[name]
    seen = observe(exchange(*pieces(stream.rechunked(sizes), cuts)))
    assert without_stamps(seen) == without_stamps(observe(exchange(stream.wire)))
    assert list(seen.chunk_ns) == sorted(seen.chunk_ns)


def test_what_the_made_streams_say() -> None:
    """Byte by byte, so that every character of several bytes is cut inside."""
    chat = observe(exchange(*(bytes([byte]) for byte in CHAT.wire)))
    assert chat.text == 'é漢😀\u2028"\\\x00\ufffd ok'
    assert (chat.token_ids, chat.chunk_tokens) == ((281, 290, 7, 8, 9, 10, 4095), (2, 1, 3, 1))
    assert (chat.prompt_tokens, chat.completion_tokens, chat.queue_time_ns) == (9, 7, 250_000)
    tools = observe(exchange(*(bytes([byte]) for byte in TOOLS.wire)))
    assert (tools.reasoning, tools.text, tools.logprobs) == ("naïve idea", "", (-0.5,))
    assert (tools.finish_reason, tools.chunk_tokens) == ("tool_calls", (2, 1, 1, 1, 2, 1, 1))
    assert json.loads(tools.tool_calls) == [
        {"id": "c1", "name": "find", "arguments": '{"was": "Öl"}'},
        {"id": "c2", "name": "stop", "arguments": "{}"},
    ]
