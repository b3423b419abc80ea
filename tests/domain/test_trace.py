import json
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.errors import TraceRefused
from app.domain.trace import (
    LINE_BYTES_MAX,
    Trace,
    TraceHeader,
    TraceLoad,
    TraceRequest,
    check_fit,
    parse_trace,
    read_requests,
)
from app.domain.trace_scan import TraceScan, split_lines, summarise
from app.domain.vocabulary import NS_PER_S, WARMUP
from tests.domain.evidence_factory import make_manifest, manifest_document

# Written down from the version that had no optional fields: bytes and digest of a trace must never change.
OLD_TRACE = (
    b'{"content_valid":true,"description":"d","format":"verdraft/trace/v0","loads":[{"duration_ns":4000000000,'
    b'"name":"low","rate_rps":1.0,"requests":1}],"name":"t","source":"s","warmup_requests":1}\n'
    b'{"due_ns":0,"load":"warmup","max_tokens":8,"prompt_token_ids":[1,2,3],"request_id":"w","strata":{"task":"copy"}}\n'
    b'{"due_ns":5,"load":"low","max_tokens":8,"prompt_text":"na\xc3\xafve","prompt_token_ids":[1,2,3],"reference":"r",'
    b'"request_id":"a","stop":["x"],"strata":{"task":"copy"}}\n'
)
OLD_DIGEST = "f3a0515071c2ee50fe57493e4f845540bea2e5bfbb372e1206aba2133ee3a178"


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
    common: dict[str, object] = {"prompt_token_ids": (1, 2, 3), "max_tokens": 8, "strata": {"task": "copy"}}
    facts[0] = {key: value for key, value in (common | facts[0]).items() if value is not None}
    header = TraceHeader(name="t", description="d", source="s", content_valid=True, warmup_requests=1, loads=loads)
    return Trace(
        header=header,
        requests=tuple(TraceRequest.model_validate(f) for f in (facts[0], *(common | fact for fact in facts[1:]))),
    )


def lines(**request_changes: object) -> list[dict[str, Any]]:
    """The trace's lines, decoded."""
    return [json.loads(line) for line in make_trace(**request_changes).encode().splitlines()]


def encoded(documents: list[dict[str, Any]]) -> bytes:
    """Lines back to bytes."""
    return b"\n".join(json.dumps(d).encode() for d in documents)


def test_an_old_trace_keeps_its_bytes_and_its_digest() -> None:
    trace = parse_trace(OLD_TRACE)
    assert trace.encode() == OLD_TRACE
    assert trace.digest == OLD_DIGEST


def test_a_trace_survives_its_bytes_and_keeps_its_digest() -> None:
    trace = make_trace(stop=("\n",), reference="right", prompt_text="naïve 文字")
    again = parse_trace(trace.encode())
    assert again == trace
    assert again.digest == trace.digest


@given(
    st.integers(0, 10**12), st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=20)
)
def test_any_offsets_and_text_survive(due_ns: int, text: str) -> None:
    trace = make_trace(due_ns=due_ns, prompt_text=text)
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
        ({"prompt_token_ids": [-1]}, "line 2: prompt_token_ids[0]"),
        ({"request_id": "a b"}, "line 2: request_id"),
        ({"surprise": "http://x"}, "line 2: surprise"),
        ({"strata": {"input": "short"}}, "line 2: strata"),
        ({"request_id": "high-0"}, "request_id"),
        ({"load": "other"}, "line 2: load"),
    ],
    ids=str,
)
def test_a_wrong_request_is_refused_with_its_line_or_field(change: dict[str, object], field: str) -> None:
    documents = lines()
    documents[1] |= change
    with pytest.raises(TraceRefused) as refused:
        parse_trace(encoded(documents))
    assert refused.value.problems[0].field == field


def test_a_repeated_id_is_told_by_both_lines() -> None:
    documents = lines()
    documents[3]["request_id"] = documents[1]["request_id"]
    with pytest.raises(TraceRefused, match="lines 2 and 4 have the same request id"):
        parse_trace(encoded(documents))


@pytest.mark.parametrize("line", [b"{", b"[1]", b"\xff\xfe", b"[" * 100_000, b'"' + b"x" * LINE_BYTES_MAX + b'"', b""])
def test_a_line_that_is_no_request_is_refused_by_number(line: bytes) -> None:
    good = make_trace().encode().splitlines()
    with pytest.raises(TraceRefused) as refused:
        parse_trace(b"\n".join([*good[:2], line, *good[2:]]))
    assert refused.value.problems[0].field.startswith("line 3")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"a":1,"a":2}', "occurs twice"),
        (b'{"a":NaN}', "NaN"),
        (b'{"a":-Infinity}', "Infinity"),
        (b'{"a":1e999}', "not finite"),
        (b'{"a":99999999999999999999}', "64 bits"),
        (b'{"a":[1,99999999999999999999]}', "64 bits"),
        (b'{"a":"\\u0000"}', "NUL"),
        (b'{"a":"\\ud800"}', "surrogate"),
        (b"[" * 40 + b"]" * 40, "nested"),
    ],
)
def test_what_json_leaves_open_is_refused_in_a_line_too(line: bytes, words: str) -> None:
    with pytest.raises(TraceRefused) as refused:
        parse_trace(make_trace().encode() + line + b"\n")
    assert (refused.value.problems[0].field, words in refused.value.problems[0].message) == ("line 7", True)


def test_no_more_problems_than_anyone_reads() -> None:
    with pytest.raises(TraceRefused) as refused:
        parse_trace(make_trace().encode() + b"{}\n" * 1_000)
    assert len(refused.value.problems) == 50


def test_a_header_that_miscounts_is_refused() -> None:
    with pytest.raises(TraceRefused, match="header says 1 requests, the trace has 0"):
        parse_trace(encoded(lines()[:-1]))


@given(st.lists(st.integers(1, 400), max_size=20))
def test_lines_do_not_depend_on_how_the_chunks_are_cut(sizes: list[int]) -> None:
    content, chunks, at = make_trace().encode(), [], 0
    for size in [*sizes, 10**9]:
        chunks.append(content[at : at + size])
        at += size
    assert list(split_lines(chunks)) == content.rstrip(b"\n").split(b"\n")


def test_an_endless_line_is_never_held_whole() -> None:
    scan, pieces = TraceScan(), (b"x" * (1 << 20) for _ in range(64))
    (line,) = split_lines(pieces)
    assert len(line) <= LINE_BYTES_MAX + 1
    scan.take(line)
    with pytest.raises(TraceRefused, match="longer than"):
        scan.summary()


def test_the_summary_says_what_the_trace_has_without_keeping_it() -> None:
    trace = make_trace(sampling={"min_p": 0.1}, stop=["\n"])
    found = summarise(split_lines([trace.encode()]))
    assert (found.digest, found.bytes, found.requests) == (trace.digest, len(trace.encode()), 5)
    assert found.strata == {"task=copy": {"low": 2, "high": 2, WARMUP: 1}}
    low = found.loads["low"]
    assert (low.requests, low.input_tokens, low.max_tokens, low.unknown_length) == (2, 6, 16, 0)
    assert (low.input_lengths, low.output_limits) == ({4: 2}, {8: 2})
    assert [place for place, count in enumerate(low.arrivals) if count] == [0, 15]
    assert found.features == ("min_p", "stop")


def test_stored_lines_are_read_back_load_by_load() -> None:
    trace = make_trace(prompt_text='{"load":"high"}')
    stored = trace.encode().splitlines()
    assert read_requests(stored).header == trace.header
    assert tuple(read_requests(stored).requests) == trace.requests
    assert {r.request_id for r in read_requests(stored, "high", WARMUP).requests} == {"high-0", "high-1", "w"}


def test_a_fitting_trace_has_no_problems() -> None:
    assert list(check_fit(make_manifest(), "copy", make_trace())) == []


def test_a_prompt_longer_than_the_model_allows_is_named() -> None:
    (problem,) = check_fit(make_manifest(), "copy", make_trace(prompt_token_ids=tuple(range(1020))))
    assert problem.field == "workloads[0].trace"
    assert "low-0" in problem.message
    assert "1028" in problem.message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sampling": {"min_p": 0.1}}, "min_p"),
        ({"sampling": {"logit_bias": {"5": 1.0}}}, "logit_bias"),
        ({"prompt_token_ids": None, "prompt": "x", "input_tokens": 2000}, "2008"),
        ({"prompt_token_ids": None, "prompt": "x", "max_tokens": 1024}, "1025"),
    ],
)
def test_what_the_engine_would_refuse_is_told_before(change: dict[str, object], words: str) -> None:
    (problem,) = check_fit(make_manifest(), "copy", make_trace(**change))
    assert words in problem.message


def test_problems_of_a_large_trace_are_cut_short() -> None:
    requests = (make_trace(max_tokens=5_000).requests[0] for _ in range(10**9))
    header = make_trace().header
    trace = read_requests(make_trace().encode().splitlines())
    endless = type(trace)(header, requests)
    assert len(list(islice(check_fit(make_manifest(), "copy", endless), 1_000))) == 50


def test_a_load_that_the_trace_lacks_is_named() -> None:
    other = [{**load, "rate_rps": 9.0} for load in manifest_document()["loads"]]
    problems = list(check_fit(make_manifest(loads=other), "copy", make_trace()))
    assert ["load low at 9 requests/s" in p.message for p in problems] == [True, False]


def test_a_closed_loop_is_not_the_open_loop_of_the_same_name() -> None:
    loads = [
        {"name": "low", "regime": "latency", "kind": "closed_loop", "clients": 2},
        {"name": "high", "regime": "serving", "rate_rps": 2.0},
    ]
    (problem,) = check_fit(make_manifest(loads=loads), "copy", make_trace())
    assert "closed loop of 2" in problem.message


@pytest.mark.parametrize(
    ("scorer", "fields", "lack"),
    [
        ("exact", {"reference": None}, "reference"),
        ("numeric", {"reference": "none"}, "number in its reference"),
        ("unit_tests", {"tests": None}, "tests"),
        ("json_schema", {}, "structured_outputs.json_schema, and the manifest states no json_schema"),
        ("exact", {"reference": "x"}, None),
        ("unit_tests", {"tests": "assert 1"}, None),
    ],
)
def test_what_a_scorer_lacks_is_told_before_any_run(scorer: str, fields: dict[str, Any], lack: str | None) -> None:
    workloads = [{"name": "copy", "trace": "c" * 64, "quality": {"scorer": scorer}}]
    trace = make_trace()
    same = trace.model_copy(update={"requests": tuple(r.model_copy(update=fields) for r in trace.requests)})
    problems = list(check_fit(make_manifest(workloads=workloads), "copy", same))
    assert {p.field for p in problems} <= {"workloads[0].quality.scorer"}
    assert all(f"it has no {lack}" in p.message for p in problems)
    assert bool(problems) is (lack is not None)
