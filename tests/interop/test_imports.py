"""Files as their tools wrote them. The expected figures were read off the files by eye."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.interop.imports import document as limits
from app.interop.imports.reading import read_result
from app.interop.imports.result import NOT_CONTROLLED, ImportedPart, ImportedResult, ImportRefused, Tool
from tests.interop.evidence import exported, small_evidence

DATA = Path(__file__).parent.parent / "data" / "interop"
FILES = (
    "vllm_bench_ngram.json",
    "vllm_bench_target.json",
    "guidellm_v2.json",
    "aiperf_profile_export.json",
    "aiperf_profile_export.jsonl",
)
Change = Callable[[dict[str, Any]], object]


def imported(name: str, change: Change | None = None) -> ImportedResult:
    content = (DATA / name).read_bytes()
    if change is not None:
        document = json.loads(content)
        change(document)
        content = json.dumps(document).encode()
    return read_result(content, "theirs")


def only_part(result: ImportedResult) -> ImportedPart:
    (part,) = result.parts
    return part


def refusal(content: bytes, label: str = "theirs") -> tuple[str, str, str]:
    with pytest.raises(ImportRefused) as caught:
        read_result(content, label)
    (problem,) = caught.value.problems
    return problem.field, problem.message, problem.remedy


def refusal_of(name: str, change: Change) -> tuple[str, str]:
    document = json.loads((DATA / name).read_bytes())
    change(document)
    field, message, _ = refusal(json.dumps(document).encode())
    return field, message


def test_vllm_with_drafts() -> None:
    result = imported("vllm_bench_ngram.json")
    part = only_part(result)
    assert (result.tool, result.tool_version, result.model) == (Tool.VLLM, None, "tgt")
    assert (part.load, part.request_rate_rps, part.concurrency) == ("4 requests/s", 4.0, None)
    assert {name: part.values[name].value for name in ("offered", "completed", "failed")} == {
        "offered": 120,
        "completed": 120,
        "failed": 0,
    }
    assert part.values["output_throughput"].value == 253.83777878136382
    assert part.summaries["ttft"].statistics["p99"] == 321.5311804699104
    assert part.summaries["tpot"].statistics["median"] == 3.591249896822369
    assert part.summaries["itl"].statistics["mean"] == 6.556706231235
    assert part.summaries["e2e"].statistics["p50"] == 256.27835899990714
    assert part.acceptance is not None
    assert part.acceptance.rate == pytest.approx(0.57418942660916784)
    assert part.acceptance.mean_length_incl == 3.198776758409786
    assert (part.acceptance.drafts, part.acceptance.drafted, part.acceptance.accepted) == (1635, 6261, 3595)
    assert part.acceptance.by_position[0] == 0.691743119266055
    assert part.time is not None
    assert part.time.iso == "2026-11-29T15:46:23"


def test_vllm_without_drafts_says_why_there_is_no_acceptance() -> None:
    part = only_part(imported("vllm_bench_target.json"))
    assert part.acceptance is None
    assert {a.name for a in part.absent} == {"tool_version", "acceptance"}
    assert part.summaries["e2e"].statistics["p99"] == 459.95737131009685


def test_guidellm() -> None:
    result = imported("guidellm_v2.json")
    part = only_part(result)
    assert (result.tool_version, result.schema_version, result.model) == ("0.8.1", "2", "null")
    assert (part.load, part.request_rate_rps) == ("constant, 10 requests/s", 10.0)
    assert part.time is not None
    assert part.time.iso == "2026-11-30T11:06:05.617+00:00"
    assert part.values["completed"].value == 12
    assert part.values["request_throughput"].value == 10.704504315583891
    assert part.summaries["ttft"].statistics["mean"] == 21.159927050272625
    assert part.summaries["ttft"].samples == 12
    assert part.summaries["itl"].statistics["median"] == 9.996414184570312
    assert (part.summaries["itl"].samples, part.summaries["itl"].nearest) == (60, "tpot_ns")
    assert (part.summaries["e2e"].unit, part.summaries["e2e"].statistics["mean"]) == ("s", 0.07196863492329916)
    assert [a.name for a in part.absent] == ["acceptance"]


def test_guidellm_of_several_rates_has_a_part_for_each() -> None:
    def add(document: dict[str, Any]) -> None:
        second = json.loads(json.dumps(document["benchmarks"][0]))
        second["config"]["strategy"] = {"type_": "concurrent", "streams": 4}
        document["benchmarks"].append(second)

    parts = imported("guidellm_v2.json", add).parts
    assert [(p.load, p.concurrency) for p in parts] == [
        ("constant, 10 requests/s", None),
        ("concurrent, 4 streams", 4),
    ]
    assert parts[1].values["completed"].field == "benchmarks[1].metrics.request_totals.successful"


def test_guidellms_zeros_of_no_sample_are_no_figures() -> None:
    def empty(document: dict[str, Any]) -> None:
        statistics = document["benchmarks"][0]["metrics"]["time_to_first_token_ms"]["successful"]
        statistics.update(mean=0.0, median=0.0, count=0)

    part = only_part(imported("guidellm_v2.json", empty))
    assert "ttft" not in part.summaries
    assert "ttft" in {a.name for a in part.absent}


def test_aiperf() -> None:
    result = imported("aiperf_profile_export.json")
    part = only_part(result)
    assert (result.tool_version, result.schema_version, result.model) == ("0.13.0", "1.4", "null")
    assert (part.load, part.request_rate_rps) == ("constant, 10 requests/s", 10.0)
    assert part.values["request_throughput"].value == 9.400737559620515
    assert part.summaries["ttft"].statistics["p99"] == 29.995416780000003
    assert part.summaries["itl"].statistics["mean"] == 10.088004166666666
    assert part.summaries["inter_chunk"].samples == 60
    assert {a.name for a in part.absent} == {"tpot", "failed", "acceptance"}


def test_aiperf_with_drafts() -> None:
    def speculate(document: dict[str, Any]) -> None:
        totals = {"total_draft_tokens": 40.0, "total_accepted_draft_tokens": 10.0, "total_spec_decode_steps": 10.0}
        document.update({name: {"unit": "tokens", "avg": total} for name, total in totals.items()})
        document["pooled_spec_decode_acceptance_histogram"] = {"0": 4, "1": 3, "2": 2, "3": 1}

    acceptance = only_part(imported("aiperf_profile_export.json", speculate)).acceptance
    assert acceptance is not None
    assert (acceptance.rate, acceptance.mean_length_incl, acceptance.drafts) == (0.25, 2.0, 10)
    assert acceptance.by_position == (0.6, 0.3, 0.1)


def test_an_aiperf_run_that_was_cut_short_says_so() -> None:
    part = only_part(imported("aiperf_profile_export.json", lambda d: d.update(was_cancelled=True, is_complete=False)))
    assert [a.name for a in part.absent].count("completeness") == 2


def test_aiperfs_records() -> None:
    result = imported("aiperf_profile_export.jsonl")
    part = only_part(result)
    assert (result.tool, result.tool_version, part.values["completed"].value) == (Tool.AIPERF, None, 3)
    # 30.747, 23.912 and 21.429 ms; the last request ended 270.402 ms after the first had started
    assert part.summaries["ttft"].statistics["p50"] == pytest.approx(23.912176)
    assert part.summaries["e2e"].statistics["max"] == pytest.approx(80.828804)
    assert part.summaries["inter_chunk"].samples == 15
    assert part.values["duration"].value == pytest.approx(0.270402, abs=1e-5)
    assert part.acceptance is None


def test_aiperfs_records_with_a_failure_and_drafts() -> None:
    first, second, third = map(json.loads, (DATA / "aiperf_profile_export.jsonl").read_text().splitlines())
    counts = {"num_draft_tokens": 8, "num_accepted_draft_tokens": 6, "num_spec_steps": 2, "engine": "vllm"}
    first["spec_decode_acceptance"] = counts
    second |= {"metrics": {}, "error": {"type": "ClientConnectorError", "message": "refused"}}
    third["metadata"]["benchmark_phase"] = "warmup"
    content = "\n".join(map(json.dumps, (first, second, third))).encode()
    part = only_part(read_result(content, "theirs"))
    assert [part.values[n].value for n in ("offered", "completed", "failed")] == [2, 1, 1]
    assert part.acceptance is not None
    assert (part.acceptance.rate, part.acceptance.mean_length_incl) == (0.75, 4.0)


@pytest.mark.parametrize("name", FILES)
def test_every_number_is_marked_as_not_controlled_and_defined(name: str) -> None:
    result = imported(name)
    assert result.status == NOT_CONTROLLED
    for part in result.parts:
        numbers = [*part.values.values(), *part.summaries.values(), *([part.acceptance] if part.acceptance else [])]
        assert numbers
        for number in numbers:
            assert number.status == NOT_CONTROLLED
            assert min(map(len, (number.unit, number.definition, number.field))) > 0


@pytest.mark.parametrize("name", FILES)
def test_a_result_is_the_same_after_storage(name: str) -> None:
    result = imported(name)
    assert ImportedResult.model_validate_json(result.model_dump_json()) == result


def test_members_that_are_not_read_are_ignored_and_counted() -> None:
    before = imported("vllm_bench_target.json")
    after = imported("vllm_bench_target.json", lambda d: d.update(new_field={"deep": [1]}, other="x"))
    assert after.ignored_fields == before.ignored_fields + 2
    assert after.parts == before.parts


def test_what_is_not_read_need_not_be_sound() -> None:
    document = json.loads((DATA / "vllm_bench_target.json").read_bytes())
    document |= {"generated_texts": ["\x00", "\ud800"], "rtfx": float("nan"), "burstiness": float("inf")}
    assert only_part(read_result(json.dumps(document).encode(), "theirs")).values["completed"].value == 240


UNSOUND: list[tuple[str, Change, str, str]] = [
    ("vllm_bench_ngram.json", lambda d: d.update(mean_ttft_ms=float("nan")), "mean_ttft_ms", "not finite"),
    ("vllm_bench_ngram.json", lambda d: d.update(duration=-1), "duration", "negative"),
    ("vllm_bench_ngram.json", lambda d: d.update(duration=10**400), "duration", "not finite"),
    ("vllm_bench_ngram.json", lambda d: d.update(completed="120"), "completed", "str, not a number"),
    ("vllm_bench_ngram.json", lambda d: d.update(completed=True), "completed", "bool, not a number"),
    ("vllm_bench_ngram.json", lambda d: d.update(max_concurrency=1.5), "max_concurrency", "not a count"),
    ("vllm_bench_ngram.json", lambda d: d.update(request_rate="fast"), "request_rate", "neither a number nor inf"),
    ("vllm_bench_ngram.json", lambda d: d.update(date="yesterday"), "date", "not YYYYMMDD"),
    ("vllm_bench_ngram.json", lambda d: d.update(model_id="a\nb"), "model_id", "not printable"),
    ("vllm_bench_ngram.json", lambda d: d.update(model_id="a" * 301), "model_id", "at most 300"),
    ("vllm_bench_ngram.json", lambda d: d.pop("duration"), "duration", "missing"),
    (
        "vllm_bench_ngram.json",
        lambda d: d.update(spec_decode_acceptance_rate=101),
        "spec_decode_acceptance_rate",
        "more was accepted",
    ),
    (
        "vllm_bench_ngram.json",
        lambda d: d.update(spec_decode_per_position_acceptance_rates=[0.5, "x"]),
        "spec_decode_per_position_acceptance_rates.1",
        "not a number",
    ),
    ("guidellm_v2.json", lambda d: d["metadata"].update(version=3), "metadata.version", "known: 2"),
    ("guidellm_v2.json", lambda d: d["metadata"].pop("version"), "metadata.version", "version 1 is not read"),
    ("guidellm_v2.json", lambda d: d.update(benchmarks=[]), "benchmarks", "there is none"),
    ("guidellm_v2.json", lambda d: d.update(benchmarks=[None]), "benchmarks[0]", "NoneType, not an object"),
    (
        "guidellm_v2.json",
        lambda d: d["benchmarks"][0]["metrics"]["request_totals"].update(errored="no"),
        "benchmarks[0].metrics.request_totals.errored",
        "not a number",
    ),
    ("guidellm_v2.json", lambda d: d["benchmarks"][0].update(start_time=1e300), "benchmarks[0].start_time", "no time"),
    ("aiperf_profile_export.json", lambda d: d.update(schema_version="2.0"), "schema_version", "known: 1.0"),
    (
        "aiperf_profile_export.json",
        lambda d: d["time_to_first_token"].update(unit="fortnights"),
        "time_to_first_token.unit",
        "fortnights is not known",
    ),
    ("aiperf_profile_export.json", lambda d: d.update(request_count=12), "request_count", "int, not an object"),
    (
        "aiperf_profile_export.json",
        lambda d: d.update(request_latency={"unit": "ms"}),
        "request_latency",
        "no statistics",
    ),
]


@pytest.mark.parametrize(
    ("name", "change", "field", "words"), UNSOUND, ids=lambda value: None if callable(value) else str(value)[:40]
)
def test_an_unsound_member_is_refused_by_name(name: str, change: Change, field: str, words: str) -> None:
    found, message = refusal_of(name, change)
    assert found == field
    assert words in message


FOREIGN: list[tuple[bytes, str]] = [
    (b"", "not one JSON document"),
    (b"[1, 2]", "list, not an object"),
    (b'{"a": 1, "a": 2}', "occurs twice"),
    (b"\xff\xfe", "not one JSON document"),
    (b"{}", "no known tool"),
    (b'{"elapsed_time": 1, "num_requests": 2}', "vllm bench throughput"),
    (b'{"avg_latency": 1, "latencies": []}', "vllm bench latency"),
    (b'{"benchmarks": [], "args": {}}', "before version 2"),
    (b'{"aggregation_type": "confidence", "metadata": {}}', "aggregate of several runs"),
    (b'{"a": ' * 40 + b"1" + b"}" * 40, "deeper than 32"),
    (b"[" * 100_000, "not readable as JSON"),
    (b'{"completed": ' + b"9" * 5000 + b"}", "not readable as JSON"),
]


@pytest.mark.parametrize(("content", "words"), FOREIGN, ids=lambda value: str(value)[:24])
def test_another_file_is_refused_with_what_is_known(content: bytes, words: str) -> None:
    field, message, remedy = refusal(content)
    assert (field, bool(remedy)) == ("(document)", True)
    assert words in message


def test_our_own_export_is_not_a_foreign_result() -> None:
    content = (DATA / "vllm_bench_target.json").read_bytes()[:-2] + b', "verdraft": {}}'
    assert "an export of Verdraft's own" in refusal(content)[1]
    assert exported(small_evidence(), "vllm")


def test_a_large_file_is_refused_before_it_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BYTES_MAX", 10)
    assert "longer than 10 bytes" in refusal(b'{"completed": 1}')[1]


@pytest.mark.parametrize("label", ["", "   ", "x" * 121, "a\nb"])
def test_a_label_is_one_line_of_text(label: str) -> None:
    assert refusal((DATA / "vllm_bench_target.json").read_bytes(), label)[0] == "label"


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just([]) | st.just({})


def paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place of a document but the long lists."""
    items = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    return [path, *(deeper for key, item in items for deeper in paths(item, (*path, key)))]


DOCUMENTS = {name: json.loads((DATA / name).read_bytes()) for name in FILES if not name.endswith("l")}
PLACES = [(name, path) for name, document in DOCUMENTS.items() for path in paths(document) if path]


@given(st.sampled_from(PLACES), VALUES)
@settings(deadline=None, max_examples=300)
def test_whatever_stands_in_one_place_is_read_or_refused(place: tuple[str, tuple[str | int, ...]], value: Any) -> None:
    name, path = place
    document: Any = json.loads((DATA / name).read_bytes())
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with contextlib.suppress(ImportRefused):  # any other error is a fault
        result = read_result(json.dumps(document).encode(), "theirs")
        assert ImportedResult.model_validate_json(result.model_dump_json()) == result
