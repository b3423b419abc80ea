"""Traces packed for storage come back line by line; bombs and broken files are refused."""

import tracemalloc

import pytest
import zstandard

from app.domain.errors import TraceRefused
from app.errors import PayloadTooLarge
from app.evidence.packing import (
    CHUNK_BYTES,
    HEAD_BYTES,
    StoredTrace,
    first_requests,
    in_chunks,
    pack_trace,
    unpack_lines,
    unpack_upload,
)
from tests.factories import encode_lines, make_trace, trace_lines


def test_a_packed_trace_reads_back_as_often_as_asked() -> None:
    trace = make_trace(requests=30)
    packed = pack_trace(in_chunks(trace.encode()))
    stored = StoredTrace(packed.body)
    assert (packed.summary.digest, packed.summary.requests) == (trace.digest, 31)
    assert b"\n".join(unpack_lines(packed.body)) + b"\n" == trace.encode()
    assert stored.header == trace.header
    assert tuple(stored.requests) == tuple(stored.requests) == trace.requests
    assert stored.of_load("low") == trace.of_load("low")


def test_what_is_stored_is_canonical_however_it_was_written() -> None:
    loose = b"\r\n".join(line.replace(b",", b", ") for line in make_trace().encode().splitlines())
    assert pack_trace([loose]).body == pack_trace([make_trace().encode()]).body


def test_a_wrong_trace_is_not_packed() -> None:
    with pytest.raises(TraceRefused, match="line 2: max_tokens"):
        pack_trace([encode_lines(trace_lines(max_tokens=0))])


def test_the_first_requests_need_only_the_head() -> None:
    trace = make_trace(requests=30)
    body = pack_trace([trace.encode()]).body
    assert first_requests(body, 3) == list(trace.requests[:3])
    assert first_requests(body, 1_000) == list(trace.requests)


def test_a_head_that_ends_inside_a_line_loses_only_that_line() -> None:
    import random  # noqa: PLC0415  (incompressible text, so that the head is reached soon)

    rng = random.Random(1)
    texts = ["".join(chr(rng.randint(0x4E00, 0x9FFF)) for _ in range(20_000)) for _ in range(40)]
    header, *lines = trace_lines(requests=40, warmup=0)
    trace = encode_lines([header, *(line | {"prompt_text": text} for line, text in zip(lines, texts, strict=True))])
    body = pack_trace([trace]).body
    assert len(body) > HEAD_BYTES
    found = first_requests(body[:HEAD_BYTES], 40)
    assert 5 < len(found) < 40
    assert [r.prompt_text for r in found] == texts[: len(found)]


def test_an_upload_may_be_zstd_of_several_frames() -> None:
    content = make_trace().encode()
    half = len(content) // 2
    packed = zstandard.compress(content[:half]) + zstandard.compress(content[half:])
    assert b"".join(unpack_upload(packed)) == content


def test_a_bomb_is_stopped_while_it_unpacks() -> None:
    bomb = zstandard.compress(b"x" * (300 << 20))
    tracemalloc.start()
    with pytest.raises(PayloadTooLarge, match="unpacks to more than"):
        list(unpack_upload(bomb))
    assert tracemalloc.get_traced_memory()[1] < 40 * CHUNK_BYTES
    tracemalloc.stop()


def test_what_is_no_zstd_says_so() -> None:
    with pytest.raises(zstandard.ZstdError):
        list(unpack_upload(b"no zstd"))
