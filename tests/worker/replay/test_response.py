import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.stall import STALL_NS
from app.domain.vocabulary import Outcome
from tests.worker.replay.streams import FIXTURES, LAST_CHUNK, STREAM_HEAD, event, exchange, recorded_reads
from worker.replay.exchange import Ending, Exchange
from worker.replay.response import AnswerReader, observation, observe

ENGINE_ERROR = {"error": {"message": "EngineCore encountered an issue.", "type": "InternalServerError", "code": 500}}


def token_chunk(*token_ids: int, text: str = "x", finish_reason: str | None = None) -> bytes:
    return event({"choices": [{"text": text, "token_ids": token_ids, "finish_reason": finish_reason}]})


def test_a_real_speculative_stream() -> None:
    reads = recorded_reads("draft_model_stream.sse.txt")
    seen = observe(Exchange("r", 0, Ending.COMPLETE, sent_ns=1, end_ns=reads[-1][0], reads=reads))
    assert (seen.outcome, seen.error, seen.finish_reason, seen.http_status) == (Outcome.SUCCESS, None, "length", 200)
    assert seen.chunk_tokens == (1, 1, 1, *[4] * 11, 1)
    assert seen.chunk_ns[:3] == (1_820_000_000, 1_832_000_000, 1_850_300_000)
    assert len(seen.token_ids) == seen.completion_tokens == 48
    assert (seen.prompt_tokens, seen.cached_tokens, seen.queue_time_ns) == (156, 128, 29_834)
    assert seen.text.startswith("atal\n#\n#\n")
    assert seen.speculation is not None
    assert (seen.speculation.num_spec_steps, seen.speculation.num_accepted_draft_tokens) == (14, 36)
    assert seen.speculation.per_step_drafted == (3,) * 14


def test_a_real_stream_without_speculation_has_one_token_a_chunk() -> None:
    reads = recorded_reads("target_stream.sse.txt")
    seen = observe(Exchange("r", 0, Ending.COMPLETE, sent_ns=1, end_ns=reads[-1][0], reads=reads))
    assert seen.outcome is Outcome.SUCCESS
    assert seen.chunk_tokens == (1,) * 48
    assert seen.speculation is None


@pytest.mark.parametrize(("name", "tokens"), [("ngram_nonstream_response.json", 96), ("chat_response.json", 8)])
def test_a_real_plain_answer(name: str, tokens: int) -> None:
    body = (FIXTURES / name).read_bytes()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    seen = observe(exchange(head, body[:500], body[500:]))
    assert (seen.outcome, seen.chunk_tokens, seen.completion_tokens) == (Outcome.SUCCESS, (tokens,), tokens)
    assert seen.speculation is not None
    assert seen.text


@given(cuts=st.sets(st.integers(1, 9_000), max_size=40))
def test_tokens_do_not_depend_on_how_the_reads_are_cut(cuts: set[int]) -> None:
    whole = b"".join(read for _, read in recorded_reads("draft_model_stream.sse.txt"))
    edges = [0, *sorted(cut for cut in cuts if cut < len(whole)), len(whole)]
    seen = observe(exchange(*(whole[a:b] for a, b in pairwise(edges))))
    once = observe(exchange(whole))
    assert (seen.token_ids, seen.chunk_tokens, seen.text) == (once.token_ids, once.chunk_tokens, once.text)
    assert seen.outcome is once.outcome is Outcome.SUCCESS


def test_an_event_has_the_time_of_the_read_that_completed_it() -> None:
    chunk = token_chunk(5, 6, finish_reason="stop")
    seen = observe(exchange(STREAM_HEAD + chunk[:10], chunk[10:], event("[DONE]"), LAST_CHUNK))
    assert (seen.first_byte_ns, seen.chunk_ns, seen.end_ns) == (100, (101,), 104)


def test_empty_text_still_carries_its_tokens() -> None:
    seen = observe(exchange(STREAM_HEAD, token_chunk(1, text=""), token_chunk(2, 3, text="é", finish_reason="stop"),
                            event("[DONE]"), LAST_CHUNK))  # fmt: skip
    assert (seen.chunk_tokens, seen.token_ids, seen.text) == ((1, 2), (1, 2, 3), "é")


def test_a_closing_chunk_without_tokens_is_no_token_chunk() -> None:
    seen = observe(
        exchange(STREAM_HEAD, token_chunk(1), token_chunk(finish_reason="stop"), event("[DONE]"), LAST_CHUNK)
    )
    assert (seen.outcome, seen.chunk_tokens, seen.finish_reason) == (Outcome.SUCCESS, (1,), "stop")


def test_chat_chunks_are_read_as_completions_are() -> None:
    role = event({"choices": [{"delta": {"role": "assistant", "content": ""}}]})
    said = event({"choices": [{"delta": {"content": "hi"}, "token_ids": [7, 8], "finish_reason": "stop"}]})
    seen = observe(exchange(STREAM_HEAD, role, said, event("[DONE]"), LAST_CHUNK))
    assert (seen.outcome, seen.text, seen.token_ids) == (Outcome.SUCCESS, "hi", (7, 8))


def delta(said: dict[str, Any], *token_ids: int, finish_reason: str | None = None, **choice: Any) -> bytes:
    """A chat chunk."""
    return event({"choices": [{"delta": said, "token_ids": token_ids, "finish_reason": finish_reason, **choice}]})


def test_reasoning_is_kept_apart_from_what_is_said() -> None:
    seen = observe(
        exchange(
            STREAM_HEAD,
            delta({"reasoning": "let me "}, 1, 2),
            delta({"reasoning_content": "see"}, 3),
            delta({"content": "yes"}, 4, finish_reason="stop"),
            event("[DONE]"),
            LAST_CHUNK,
        )
    )
    assert (seen.reasoning, seen.text) == ("let me see", "yes")
    assert (seen.token_ids, seen.chunk_tokens) == ((1, 2, 3, 4), (2, 1, 1))


def test_tool_calls_are_put_together_from_their_pieces() -> None:
    def piece(index: int, arguments: str, **head: Any) -> dict[str, Any]:
        name = {"name": head["name"]} if "name" in head else {}
        return {
            "tool_calls": [
                {"index": index, "function": {"arguments": arguments, **name}} | ({"id": head["id"]} if head else {})
            ]
        }

    seen = observe(
        exchange(
            STREAM_HEAD,
            delta(piece(0, "", id="c1", name="find"), 1),
            delta(piece(0, '{"a":'), 2),
            delta(piece(1, "{}", id="c2", name="stop"), 3),
            delta(piece(0, "1}"), 4, finish_reason="tool_calls"),
            event("[DONE]"),
            LAST_CHUNK,
        )
    )
    assert json.loads(seen.tool_calls) == [
        {"id": "c1", "name": "find", "arguments": '{"a":1}'},
        {"id": "c2", "name": "stop", "arguments": "{}"},
    ]
    assert (seen.outcome, seen.finish_reason, seen.text) == (Outcome.SUCCESS, "tool_calls", "")


def test_a_whole_chat_answer_has_its_calls_too() -> None:
    calls = [{"id": f"c{i}", "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in (0, 1)]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    body = json.dumps({"choices": [{"message": message, "token_ids": [1], "finish_reason": "tool_calls"}]}).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    seen = observe(exchange(head, body))
    assert [call["id"] for call in json.loads(seen.tool_calls)] == ["c0", "c1"]


def test_log_probabilities_of_both_routes() -> None:
    chat = delta({"content": "a"}, 1, finish_reason="stop", logprobs={"content": [{"token": "a", "logprob": -0.5}]})
    plain = event({"choices": [{"text": "ab", "token_ids": [1, 2], "finish_reason": "stop",
                                "logprobs": {"token_logprobs": [-0.5, -1.5], "tokens": ["a", "b"]}}]})  # fmt: skip
    for chunk, expected in ((chat, (-0.5,)), (plain, (-0.5, -1.5))):
        assert observe(exchange(STREAM_HEAD, chunk, event("[DONE]"), LAST_CHUNK)).logprobs == expected


def test_text_without_token_ids_is_still_timed_and_its_tokens_come_from_the_usage() -> None:
    chunks = [event({"choices": [{"text": text, "finish_reason": end}]}) for text, end in (("a", None), ("b", "stop"))]
    usage = event({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 5}})
    seen = observe(exchange(STREAM_HEAD, *chunks, usage, event("[DONE]"), LAST_CHUNK))
    assert (seen.outcome, seen.text, seen.chunk_ns) == (Outcome.SUCCESS, "ab", (101, 102))
    assert (seen.chunk_tokens, seen.token_ids, seen.completion_tokens) == ((0, 0), (), 5)


FINISHED = token_chunk(1, finish_reason="length")
PLAIN_400 = b'{"error":{"message":"too long","code":400}}'
PLAIN_HEAD = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(
    PLAIN_400
)


@pytest.mark.parametrize(
    ("given_exchange", "outcome", "words"),
    [
        (exchange(PLAIN_HEAD, PLAIN_400), Outcome.HTTP_ERROR, "too long"),
        (exchange(b"HTTP/1.1 503 X\r\ncontent-length: 4\r\n\r\nbusy"), Outcome.HTTP_ERROR, "busy"),
        (
            exchange(STREAM_HEAD, FINISHED, event(ENGINE_ERROR), event("[DONE]"), LAST_CHUNK),
            Outcome.STREAM_ERROR,
            "EngineCore",
        ),
        (
            exchange(STREAM_HEAD, event("{broken"), event("[DONE]"), LAST_CHUNK),
            Outcome.STREAM_ERROR,
            "not a completion",
        ),
        (exchange(b"SSH-2.0-OpenSSH\r\n", ending=Ending.CLOSED), Outcome.STREAM_ERROR, "not HTTP"),
        (exchange(STREAM_HEAD, token_chunk(1), event("[DONE]"), LAST_CHUNK), Outcome.TRUNCATED, "finish_reason"),
        (exchange(STREAM_HEAD, FINISHED, LAST_CHUNK), Outcome.TRUNCATED, "[DONE]"),
        (exchange(STREAM_HEAD, FINISHED, ending=Ending.CLOSED, error="reset"), Outcome.TRUNCATED, "reset"),
        (exchange(ending=Ending.CLOSED), Outcome.TRUNCATED, "finish_reason"),
        (exchange(STREAM_HEAD, token_chunk(1), ending=Ending.DEADLINE), Outcome.DEADLINE_MISS, "gave up"),
        (exchange(STREAM_HEAD, token_chunk(1), ending=Ending.CANCELED), Outcome.CLIENT_CANCEL, "canceled"),
        (exchange(ending=Ending.REFUSED, error="ECONNREFUSED"), Outcome.CONNECT_REFUSED, "ECONNREFUSED"),
        (exchange(ending=Ending.UNSENT), Outcome.NOT_SENT, "before it could be sent"),
    ],
)
def test_outcomes(given_exchange: Exchange, outcome: Outcome, words: str) -> None:
    seen = observe(given_exchange)
    assert seen.outcome is outcome
    assert words in (seen.error or "")


def test_what_arrived_before_a_failure_is_kept() -> None:
    seen = observe(exchange(STREAM_HEAD, token_chunk(1, 2), token_chunk(3), ending=Ending.DEADLINE))
    assert (seen.token_ids, seen.chunk_ns) == ((1, 2, 3), (101, 102))


def test_an_answer_that_stood_still_is_a_stall_and_says_how_long() -> None:
    given_up = exchange(STREAM_HEAD, token_chunk(1), token_chunk(2), ending=Ending.DEADLINE)
    seen = observe(replace(given_up, end_ns=102 + 2 * STALL_NS))
    assert (seen.outcome, seen.token_ids) == (Outcome.STALL, (1, 2))
    assert seen.error == (
        "the answer stood still: no chunk for 2.000 s before the client gave up; a stall is 1.000 s or more"
    )
    for other in (Ending.CANCELED, Ending.CLOSED):
        cut = observe(replace(given_up, end_ns=102 + 2 * STALL_NS, ending=other))
        assert cut.outcome in {Outcome.CLIENT_CANCEL, Outcome.TRUNCATED}


def test_before_the_first_chunk_there_is_no_stall() -> None:
    """The head of an answer is sent while its request still waits in vLLM's queue."""
    queued = exchange(STREAM_HEAD, ending=Ending.DEADLINE)
    assert observe(replace(queued, end_ns=60 * STALL_NS)).outcome is Outcome.DEADLINE_MISS


def test_reads_may_come_one_by_one_instead_of_with_the_exchange() -> None:
    whole = exchange(STREAM_HEAD, token_chunk(1, finish_reason="stop"), event("[DONE]"), LAST_CHUNK)
    reader = AnswerReader()
    for at_ns, chunk in whole.reads:
        reader.feed(at_ns, chunk)
    assert observation(replace(whole, reads=()), reader) == observe(whole)
