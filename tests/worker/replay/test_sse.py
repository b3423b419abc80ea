from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.replay.sse import SseEvent, SseParser

STREAM = (
    '\ufeffdata: {"text":"é漢😀"}\r\n\r\n'
    ": a comment\n"
    "event: note\rdata: one\r\ndata:two\n\n"
    "retry: 5\n\n"
    "data\n\n"
    "data: [DONE]\r\r"
    "data: never closed\n"
).encode()
EVENTS = [SseEvent('{"text":"é漢😀"}'.encode()), SseEvent(b"one\ntwo", b"note"), SseEvent(b""), SseEvent(b"[DONE]")]


def parsed(*reads: bytes) -> list[SseEvent]:
    parser = SseParser()
    return [event for read in reads for event in parser.feed(read)]


@pytest.mark.parametrize("cut", range(len(STREAM) + 1))
def test_a_cut_at_any_byte_changes_nothing(cut: int) -> None:
    assert parsed(STREAM[:cut], STREAM[cut:]) == EVENTS


def test_byte_by_byte_is_the_same() -> None:
    assert parsed(*(bytes([byte]) for byte in STREAM)) == EVENTS


def test_an_event_is_returned_by_the_read_that_completes_it() -> None:
    parser = SseParser()
    assert parser.feed(b"data: a\n") == []
    assert parser.feed(b"\n") == [SseEvent(b"a")]


text_lines = st.lists(st.text().filter(lambda t: not set(t) & {"\r", "\n"}), min_size=1, max_size=3)


@given(
    events=st.lists(text_lines, max_size=5),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    cuts=st.sets(st.integers(0, 400)),
)
def test_any_text_survives_any_cuts(events: list[list[str]], end: str, cuts: set[int]) -> None:
    written = "".join("".join(f"data: {line}{end}" for line in lines) + end for lines in events).encode(
        "utf-8", "replace"
    )
    edges = [0, *sorted(cut for cut in cuts if cut < len(written)), len(written)]
    reads = [written[a:b] for a, b in pairwise(edges)]
    expected = ["\n".join(lines).encode("utf-8", "replace") for lines in events]
    assert [event.data for event in parsed(*reads)] == expected


def test_bytes_that_are_no_text_come_out_as_they_went_in() -> None:
    assert parsed(b"data: \xff\xc3\n\n") == [SseEvent(b"\xff\xc3")]


def test_a_huge_line_in_many_reads_costs_its_length_only() -> None:
    """Sixteen megabytes in reads of 4 kB: copied anew for each read they would be 34 gigabytes."""
    piece, count = b"x" * 4096, 4096
    assert parsed(b"data: ", *[piece] * count, b"\n", b"\n") == [SseEvent(piece * count)]


@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_a_byte_order_mark_is_no_part_of_the_first_line_only(start: str) -> None:
    stream = f"{start}data: a\n\n\ufeffdata: b\n\ndata: \ufeffc\n\n".encode()
    expected = [SseEvent(b"a"), SseEvent("\ufeffc".encode())]
    assert parsed(stream) == parsed(*(bytes([byte]) for byte in stream)) == expected
