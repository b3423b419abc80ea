"""Whatever happens to a file: no crash, every row accounted for, and what is not damaged is kept."""

import contextlib
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.errors import DomainError
from app.workloads.readers.lines import NO_LINE_END
from app.workloads.readers.registry import FORMATS
from app.workloads.record import BadRow, Item, Note, Record
from tests.workloads.reading import items, notes, records
from tests.workloads.samples import SAMPLES

BY_LINE = sorted(SAMPLES.keys() - {"sharegpt", "speed-bench-parquet"})
TABLES = ("azure", "burstgpt")


def survived(name: str, content: bytes) -> list[Item]:
    """What the reader says, or nothing where it refuses the whole file on purpose; any other error is a crash."""
    with contextlib.suppress(DomainError):
        return list(FORMATS[name].read(io.BytesIO(content)))
    return []


@pytest.mark.parametrize("name", BY_LINE)
def test_cut_at_every_offset_all_rows_before_the_cut_are_kept(name: str) -> None:
    content = SAMPLES[name]
    whole = records(name, content)
    headers = 1 if name in TABLES else 0
    for cut in range(len(content) + 1):
        found = survived(name, content[:cut])
        lines = content[:cut].count(b"\n")
        good = [item for item in found if isinstance(item, Record)]
        complete = max(lines - headers, 0)
        assert [r.row for r in good[:complete]] == [r.row for r in whole[:complete]]
        rest = content[:cut].rpartition(b"\n")[2]
        if rest.strip() and (found or not headers):
            assert any(isinstance(item, Note) and item.text == NO_LINE_END for item in found)
            assert len([item for item in found if not isinstance(item, Note)]) == complete + (lines >= headers)


def test_sharegpt_cut_at_every_offset_keeps_whole_conversations_and_says_so() -> None:
    content = SAMPLES["sharegpt"].rstrip()
    whole = records("sharegpt", content)
    for cut in range(1, len(content)):
        found = items("sharegpt", content[:cut])
        good = [item for item in found if isinstance(item, Record)]
        assert good == whole[: len(good)]
        assert isinstance(found[-1], BadRow)
        assert len(good) >= sum(cut > end for end in element_ends(content)) - 1


def element_ends(content: bytes) -> list[int]:
    """Offsets just behind each conversation, found by its text."""
    return [content.index(end) + len(end) for end in (b"Norway}.", b'Hi \\\\"', b'"Yes."')]


@pytest.mark.parametrize("cut", range(0, len(SAMPLES["speed-bench-parquet"]), 7))
def test_parquet_cut_anywhere_is_refused_in_words(cut: int) -> None:
    with pytest.raises(DomainError):
        items("speed-bench-parquet", SAMPLES["speed-bench-parquet"][:cut])


@pytest.mark.parametrize("name", BY_LINE)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_flipped_byte_costs_at_most_the_lines_that_it_touches(name: str, data: st.DataObject) -> None:
    content = SAMPLES[name]
    place = data.draw(st.integers(0, len(content) - 1))
    byte = data.draw(st.integers(0, 255))
    damaged = content[:place] + bytes([byte]) + content[place + 1 :]
    found = survived(name, damaged)
    line = content[:place].count(b"\n") + 1
    touched = {line, line + 1}
    if name in TABLES and not found:
        assert line == 1
        return
    lost_newline = content[place : place + 1] == b"\n"
    shift = damaged.count(b"\n") - content.count(b"\n")
    kept = {item.line - (shift if item.line > line else 0): item.row for item in found if isinstance(item, Record)}
    for record in records(name, content):
        if record.line not in touched and not (lost_newline and record.line == line + 1):
            assert kept.get(record.line) == record.row
    reported = [item for item in found if not isinstance(item, Note)]
    assert all(isinstance(item, Record | BadRow) for item in reported)


@pytest.mark.parametrize("name", sorted(SAMPLES))
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_many_flipped_bytes_crash_nothing(name: str, data: st.DataObject) -> None:
    content = bytearray(SAMPLES[name])
    flips = st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255))
    for place, byte in data.draw(st.lists(flips, min_size=1, max_size=8)):
        content[place] = byte
    for item in survived(name, bytes(content)):
        assert isinstance(item, Record | BadRow | Note)


@pytest.mark.parametrize("name", sorted(SAMPLES))
@given(content=st.binary(max_size=200))
def test_any_bytes_crash_nothing(name: str, content: bytes) -> None:
    survived(name, content)


def test_a_whole_file_has_no_remark_about_its_end() -> None:
    assert notes("azure", SAMPLES["azure"]) == []
