import io
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from app.workloads.readers.elements import read_elements
from app.workloads.readers.lines import Line
from app.workloads.record import BadRow

TEXT = st.text(alphabet='ab"\\{}[],:\n é\u3042', max_size=12)
VALUES = st.recursive(
    st.none() | st.integers() | TEXT, lambda v: st.lists(v, max_size=3) | st.dictionaries(TEXT, v, max_size=3)
)
DOCUMENTS = st.lists(st.dictionaries(TEXT, VALUES, max_size=4), max_size=6)


def read(content: bytes, chunk_bytes: int) -> list[Line | BadRow]:
    return list(read_elements(io.BytesIO(content), chunk_bytes))


@settings(max_examples=60, deadline=None)
@given(DOCUMENTS, st.integers(1, 40), st.sampled_from([None, 1]))
def test_the_elements_are_those_of_the_whole_array_however_it_is_chunked(
    document: list[Any], chunk_bytes: int, indent: int | None
) -> None:
    content = json.dumps(document, indent=indent).encode()
    found = read(content, chunk_bytes)
    assert all(isinstance(item, Line) for item in found)
    assert [json.loads(item.content) for item in found if isinstance(item, Line)] == document


@settings(max_examples=60, deadline=None)
@given(DOCUMENTS.filter(bool), st.integers(1, 40))
def test_each_element_stands_on_its_line(document: list[Any], chunk_bytes: int) -> None:
    texts = [json.dumps(element) for element in document]
    found = read(("[\n" + ",\n".join(texts) + "\n]\n").encode(), chunk_bytes)
    assert [item.line if isinstance(item, BadRow) else item.number for item in found] == list(range(2, len(texts) + 2))


@settings(max_examples=60, deadline=None)
@given(DOCUMENTS, st.integers(1, 40), st.data())
def test_a_cut_is_seen_and_what_was_whole_before_it_is_kept(
    document: list[Any], chunk_bytes: int, data: st.DataObject
) -> None:
    content = json.dumps(document).encode()
    cut = data.draw(st.integers(1, len(content) - 1))
    *kept, last = read(content[:cut], chunk_bytes)
    assert isinstance(last, BadRow)
    assert "cut off" in last.reason
    assert [json.loads(item.content) for item in kept if isinstance(item, Line)] == document[: len(kept)]


def test_a_flaw_inside_an_element_costs_only_that_element() -> None:
    found = read(b'[{"a": 1}, {"a": tru}, {"a": 3}]', 5)
    assert [item.content for item in found if isinstance(item, Line)] == [b'{"a": 1}', b'{"a": tru}', b'{"a": 3}']


def test_a_lost_opening_brace_does_not_end_the_array() -> None:
    found = read(b'[{"a": 1}, "a": 2}, {"a": 3}]', 4)
    assert found[-1] == Line(1, b'{"a": 3}')


def test_what_follows_the_array_is_reported() -> None:
    *_, last = read(b'[{"a": 1}]\n\n{"b": 2}\n', 3)
    assert isinstance(last, BadRow)
    assert (last.line, last.reason) == (3, "follows after the end of the list")


def test_an_empty_element_is_a_bad_row_and_an_empty_array_is_not() -> None:
    assert read(b"[ ]", 1) == []
    first, second, third = read(b'[{"a": 1},, {"a": 2}]', 2)
    assert isinstance(first, Line)
    assert isinstance(second, BadRow)
    assert isinstance(third, Line)
