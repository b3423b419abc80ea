import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.errors import TraceRefused
from app.domain.trace import LINE_BYTES_MAX, Trace, TraceHeader, TraceLoad, TraceRequest, check_fit, parse_trace
from app.domain.vocabulary import NS_PER_S, WARMUP
from tests.domain.evidence_factory import make_manifest, manifest_document


def make_trace(**request_changes: object) -> Trace:
    """Two loads of two requests and one warm-up; the changes go into the first measured request."""
    loads = tuple(
        TraceLoad(name=name, rate_rps=rate, requests=2, duration_ns=4 * NS_PER_S)
        for name, rate in (("low", 1.0), ("high", 2.0))
    )
    facts: list[dict[str, object]] = [
        {"request_id": f"{load}-{i}", "load": load, "due_ns": (1 - i) * NS_PER_S}
        for load in ("low", "high")
        for i in (0, 1)
    ]
    facts[0] |= request_changes
    facts.append({"request_id": "w", "load": WARMUP, "due_ns": 0})
    common = {"prompt_token_ids": (1, 2, 3), "max_tokens": 8, "strata": {"task": "copy"}}
    header = TraceHeader(name="t", description="d", source="s", content_valid=True, warmup_requests=1, loads=loads)
    return Trace(header=header, requests=tuple(TraceRequest.model_validate(common | fact) for fact in facts))


def lines(**request_changes: object) -> list[dict[str, object]]:
    """The trace's lines, decoded."""
    return [json.loads(line) for line in make_trace(**request_changes).encode().splitlines()]


def encoded(documents: list[dict[str, object]]) -> bytes:
    """Lines back to bytes."""
    return b"\n".join(json.dumps(d).encode() for d in documents)


def test_a_trace_survives_its_bytes_and_keeps_its_digest() -> None:
    trace = make_trace(stop=("\n",), reference="right", prompt_text="naïve 文字")
    again = parse_trace(trace.encode())
    assert again == trace
    assert again.digest == trace.digest


@given(st.lists(st.integers(0, 10**12), min_size=2, max_size=2), st.text(max_size=20))
def test_any_offsets_and_text_survive(due: list[int], text: str) -> None:
    trace = make_trace(due_ns=due[0], prompt_text=text)
    assert parse_trace(trace.encode()) == trace


def test_spelling_does_not_change_the_digest_but_content_does() -> None:
    loose = b"\n".join(json.dumps(d, indent=None, separators=(", ", " : ")).encode() for d in lines())
    assert parse_trace(loose).digest == make_trace().digest
    assert make_trace(max_tokens=9).digest != make_trace().digest


def test_requests_of_a_load_come_in_due_order() -> None:
    assert [r.request_id for r in make_trace().of_load("low")] == ["low-1", "low-0"]
    assert [r.request_id for r in make_trace().of_load(WARMUP)] == ["w"]


@pytest.mark.parametrize("content", [b"", b"\n", b"{}", make_trace().encode().splitlines()[0]])
def test_an_empty_workload_is_refused(content: bytes) -> None:
    with pytest.raises(TraceRefused) as refused:
        parse_trace(content)
    assert refused.value.problems[0].remedy


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"due_ns": -1}, "line 2: due_ns"),
        ({"max_tokens": 0}, "line 2: max_tokens"),
        ({"prompt_token_ids": []}, "line 2: prompt_token_ids"),
        ({"request_id": "a b"}, "line 2: request_id"),
        ({"image_url": "http://x"}, "line 2: image_url"),
        ({"strata": {"input": "short"}}, "strata"),
        ({"request_id": "high-0"}, "request_id"),
        ({"load": "other"}, "loads"),
    ],
    ids=str,
)
def test_a_wrong_request_is_refused_with_its_line_or_field(change: dict[str, object], field: str) -> None:
    documents = lines()
    documents[1] |= change
    with pytest.raises(TraceRefused) as refused:
        parse_trace(encoded(documents))
    assert refused.value.problems[0].field == field


@pytest.mark.parametrize("line", [b"{", b"[1]", b"\xff\xfe", b"[" * 100_000, b'"' + b"x" * LINE_BYTES_MAX + b'"'])
def test_a_line_that_is_no_request_is_refused_by_number(line: bytes) -> None:
    good = make_trace().encode().splitlines()
    with pytest.raises(TraceRefused) as refused:
        parse_trace(b"\n".join([*good[:2], line, *good[2:]]))
    assert refused.value.problems[0].field.startswith("line 3")


def test_a_header_that_miscounts_is_refused() -> None:
    documents = lines()
    with pytest.raises(TraceRefused, match="header says 1 requests, the trace has 0"):
        parse_trace(encoded(documents[:-1]))


def test_a_fitting_trace_has_no_problems() -> None:
    assert list(check_fit(make_manifest(), "copy", make_trace())) == []


def test_a_prompt_longer_than_the_model_allows_is_named() -> None:
    (problem,) = check_fit(make_manifest(), "copy", make_trace(prompt_token_ids=tuple(range(1020))))
    assert problem.field == "workloads[0].trace"
    assert "low-0" in problem.message
    assert "1028" in problem.message


def test_a_load_that_the_trace_lacks_is_named() -> None:
    other = [{**load, "rate_rps": 9.0} for load in manifest_document()["loads"]]
    problems = list(check_fit(make_manifest(loads=other), "copy", make_trace()))
    assert ["load low at 9.0" in p.message for p in problems] == [True, False]
