import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from app.domain.errors import DomainError
from app.domain.vocabulary import NS_PER_S, WARMUP
from app.workloads.choices import OnBadRow, Spread, Turns
from app.workloads.drafting import Choices
from app.workloads.loads import parse_loads
from app.workloads.readers.conversations import text_of
from app.workloads.tally import RowsRefused
from tests.workloads.importing import imported, timed, tokens, trace_of
from tests.workloads.reading import records
from tests.workloads.samples import AZURE, OPENAI, SHAREGPT, SPEC_BENCH
from tests.workloads.test_whole_files import MOONCAKE as MOONCAKE_FILE

PROMPTS = b"".join(
    json.dumps({"prompt": f"Say the number {n}.", "output_tokens": 3 + n % 5}).encode() + b"\n" for n in range(100)
)


def test_recorded_times_become_the_offsets_to_the_nanosecond(tmp_path: Path) -> None:
    result = imported(tmp_path, "azure", AZURE, warmup=0)
    trace = trace_of(result)
    assert [request.due_ns for request in trace.requests] == [0, 4_314_579_000, 4_541_877_000]
    assert [request.prompt_tokens for request in trace.requests] == [374, 396, 879]
    assert [request.max_tokens for request in trace.requests] == [44, 109, 55]
    (load,) = trace.header.loads
    assert load.duration_ns == 4_541_877_000 * 3 // 2
    assert load.rate_rps == pytest.approx(3 * NS_PER_S / load.duration_ns, rel=1e-5)


def test_rows_out_of_order_are_put_in_order_and_counted(tmp_path: Path) -> None:
    header, first, second, third, _ = AZURE.split(b"\r\n")
    result = imported(tmp_path, "azure", b"\r\n".join([header, third, first, second, b""]), warmup=0)
    assert [r.request_id for r in trace_of(result).requests] == ["r3", "r4", "r2"]
    assert result.reading.tally.out_of_order == 1


def test_a_trace_without_content_is_marked_everywhere(tmp_path: Path) -> None:
    trace = trace_of(imported(tmp_path, "azure", AZURE))
    assert trace.header.content_valid is False
    assert all(request.strata["content"] == "placeholder" for request in trace.requests)


def test_the_same_import_gives_the_same_bytes(tmp_path: Path) -> None:
    first = imported(tmp_path, "azure", timed(600), loads="slow=2x200,fast=8@30")
    content = first.trace.path.read_bytes()
    again = imported(tmp_path, "azure", timed(600), loads="slow=2x200,fast=8@30")
    assert again.trace.digest == first.trace.digest
    assert again.trace.path.read_bytes() == content


def test_the_digest_of_an_import_is_known(tmp_path: Path) -> None:
    """Changes only with the format or what an import means by it; then change it here on purpose."""
    assert imported(tmp_path, "vllm-custom", PROMPTS, loads="steady=5").trace.digest[:12] == KNOWN_DIGEST


KNOWN_DIGEST = "410a578656b8"


def test_rescaling_keeps_the_pattern(tmp_path: Path) -> None:
    whole = trace_of(imported(tmp_path, "azure", timed(600), warmup=0))
    faster = trace_of(imported(tmp_path, "azure", timed(600), loads="fast=50", warmup=0))
    (load,) = faster.header.loads
    assert load.rate_rps == 50
    assert load.duration_ns == 12 * NS_PER_S
    factor = whole.header.loads[0].duration_ns / load.duration_ns
    for slow, fast in zip(whole.requests, faster.requests, strict=True):
        assert slow.due_ns == pytest.approx(fast.due_ns * factor, abs=factor + 1)


def test_loads_are_dealt_in_order_with_nothing_twice(tmp_path: Path) -> None:
    result = imported(tmp_path, "azure", timed(600), loads="a=1x100,b=2@100,c=3")
    trace = trace_of(result)
    sizes = Counter(request.load for request in trace.requests)
    assert sizes == {WARMUP: 16, "a": 100, "b": 200, "c": 600 - 16 - 300}
    assert len({request.request_id for request in trace.requests}) == 600
    lines = [int(r.request_id[1:]) for r in trace.requests if r.load != WARMUP]
    assert lines == sorted(lines)


def test_rows_beyond_the_loads_are_counted(tmp_path: Path) -> None:
    result = imported(tmp_path, "vllm-custom", PROMPTS, loads="a=1x30", warmup=10)
    assert result.header.record is not None
    assert result.header.record["rows_left_over"] == 60
    assert any("60 rows belong to no load" in warning for warning in result.warnings)


def test_more_than_there_is_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DomainError) as refused:
        imported(tmp_path, "vllm-custom", PROMPTS, loads="a=1x1000")
    assert refused.value.problems[0].field == "loads"
    assert list(tmp_path.iterdir()) == [tmp_path / "source.file"]


def test_prompts_without_times_need_a_rate(tmp_path: Path) -> None:
    with pytest.raises(DomainError) as refused:
        imported(tmp_path, "vllm-custom", PROMPTS)
    assert "no rate" in refused.value.problems[0].message
    with pytest.raises(DomainError) as refused:
        imported(tmp_path, "vllm-custom", PROMPTS, loads="a=1", spread=Spread.RECORDED)
    assert "no times" in refused.value.problems[0].message


@pytest.mark.parametrize("spread", [Spread.POISSON, Spread.CONSTANT, Spread.GAMMA])
def test_made_arrivals_have_the_rate_and_are_in_order(tmp_path: Path, spread: Spread) -> None:
    trace = trace_of(imported(tmp_path, "vllm-custom", PROMPTS, loads="a=4", spread=spread, warmup=0, burstiness=0.5))
    (load,) = trace.header.loads
    assert (load.requests, load.duration_ns) == (100, 25 * NS_PER_S)
    dues = [request.due_ns for request in trace.requests]
    assert dues == sorted(dues)
    assert load.arrival is not None
    assert load.arrival.kind == spread.value


def test_a_closed_loop_has_clients_and_no_times(tmp_path: Path) -> None:
    trace = trace_of(imported(tmp_path, "vllm-custom", PROMPTS, loads="c=8clientsx50"))
    (load,) = trace.header.loads
    assert (load.clients, load.rate_rps, load.requests, load.duration_ns) == (8, None, 50, 0)
    assert all(request.due_ns == 0 for request in trace.of_load("c"))


def test_one_moment_for_all_rows_is_no_rate(tmp_path: Path) -> None:
    same = b'{"timestamp": 5, "prompt": "a", "max_tokens": 1}\n' * 3
    with pytest.raises(DomainError) as refused:
        imported(tmp_path, "openai", same)
    assert refused.value.problems[0].field == "arrival"


BROKEN = AZURE.replace(b",396,", b",x,") + b"2023-11-16 18:15:52.0000000,10,0\r\n2023-11-16 18:15:53.0000000,0,5\r\n"


def test_refuse_names_every_bad_row_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RowsRefused) as refused:
        imported(tmp_path, "azure", BROKEN)
    assert [problem.field for problem in refused.value.problems] == [
        "line 3: ContextTokens",
        "line 5: output length",
        "line 6: input length",
    ]
    assert all("skip" in problem.remedy for problem in refused.value.problems)
    assert list(tmp_path.iterdir()) == [tmp_path / "source.file"]


def test_skip_keeps_the_rest_and_the_counts_stay_in_the_trace(tmp_path: Path) -> None:
    result = imported(tmp_path, "azure", BROKEN, on_bad_row=OnBadRow.SKIP, warmup=0)
    record = trace_of(result).header.record
    assert record is not None
    assert (record["rows_read"], record["rows_kept"], record["rows_skipped"]) == (5, 2, 3)
    assert isinstance(record["bad_rows"], list)
    assert record["bad_rows"][0] == {"where": "line 3", "field": "ContextTokens", "reason": "is not a whole number"}
    assert [r.request_id for r in trace_of(result).requests] == ["r2", "r4"]


def test_a_limit_stops_early_and_says_so(tmp_path: Path) -> None:
    result = imported(tmp_path, "azure", timed(600), limit=50, warmup=0)
    assert result.reading.complete is False
    assert len(trace_of(result).requests) == 50


def test_a_row_without_a_time_among_timed_ones_is_bad(tmp_path: Path) -> None:
    content = b'{"timestamp": 1, "input_length": 5, "output_length": 1}\n{"input_length": 5, "output_length": 1}\n'
    with pytest.raises(RowsRefused) as refused:
        imported(tmp_path, "mooncake", content)
    assert refused.value.problems[0].field == "line 2: timestamp"


def test_requests_carry_how_they_were_asked(tmp_path: Path) -> None:
    first, second, third = trace_of(imported(tmp_path, "openai", OPENAI, warmup=0)).requests
    assert first.sampling is not None
    assert (first.sampling.temperature, first.stop, first.max_tokens) == (0.7, ("END",), 40)
    assert first.structured_outputs is not None
    assert first.structured_outputs.json_schema == {"type": "array"}
    assert (second.prompt_token_ids, second.logprobs) == ((5, 6, 7), 3)
    assert (third.tools[0].function.name, third.tool_choice) == ("weather", "auto")
    assert (first.strata["sampling"], first.strata["constraint"], third.strata["constraint"]) == (
        "sampled",
        "json",
        "tools",
    )


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"n": 2}, "n"),
        ({"stop_token_ids": [1]}, "stop_token_ids"),
        ({"temperature": 9}, "sampling.temperature"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"guided_regex": "a", "guided_choice": ["b"]}, "response_format"),
    ],
)
def test_what_a_trace_cannot_say_refuses_the_row(tmp_path: Path, members: dict[str, object], field: str) -> None:
    line = json.dumps({"timestamp": 1, "prompt": "a", "max_tokens": 1} | members).encode() + b"\n"
    with pytest.raises(RowsRefused) as refused:
        imported(tmp_path, "openai", line)
    assert refused.value.problems[0].field == f"line 1: {field}"


def test_the_first_turn_alone_is_the_default_and_the_others_are_counted(tmp_path: Path) -> None:
    result = imported(tmp_path, "sharegpt", SHAREGPT, loads="a=1", warmup=0)
    trace = trace_of(result)
    assert [len(request.messages) for request in trace.requests] == [1, 2, 1]
    assert sum(count for text, count in result.reading.remarks.items() if "later turns" in text) == 1
    assert trace.requests[0].reference == 'A long narrow inlet, "drowned" by the sea.'


def test_recorded_turns_contain_the_recorded_answers(tmp_path: Path) -> None:
    trace = trace_of(
        imported(tmp_path, "sharegpt", SHAREGPT, choices=Choices(turns=Turns.RECORDED), loads="a=1", warmup=0)
    )
    first, second = trace.requests[:2]
    assert [len(first.messages), len(second.messages)] == [1, 3]
    assert second.turn is not None
    assert (second.turn.previous, second.turn.answer, trace.header.loads[0].turns) == ("r2", "recorded", "recorded")
    assert second.reference == "Sognefjord {in Norway}."
    assert all(later.due_ns >= earlier.due_ns for earlier, later in pairwise(trace.requests))


def test_own_turns_leave_a_place_for_the_answer_that_was_not_recorded(tmp_path: Path) -> None:
    choices = Choices(turns=Turns.OWN, think_ns=NS_PER_S)
    trace = trace_of(imported(tmp_path, "spec-bench", SPEC_BENCH, choices=choices, loads="a=1", warmup=0))
    second = next(request for request in trace.requests if request.turn and request.turn.index == 1)
    assert [(m.role, text_of(m)) for m in second.messages] == [
        ("user", "Write a line."),
        ("assistant", ""),
        ("user", "Make it rhyme."),
    ]
    assert second.turn is not None
    assert second.turn.think_ns == NS_PER_S


def test_unrecorded_answers_cannot_be_sent_as_recorded(tmp_path: Path) -> None:
    with pytest.raises(RowsRefused):
        imported(tmp_path, "spec-bench", SPEC_BENCH, choices=Choices(turns=Turns.RECORDED), loads="a=1")


def test_lengths_are_counted_with_a_tokenizer(tmp_path: Path) -> None:
    counter = tokens()
    trace = trace_of(imported(tmp_path, "vllm-custom", PROMPTS, counter=counter, loads="a=1", warmup=0))
    assert [r.input_tokens for r in trace.requests[:3]] == [counter.count(r.prompt or "") for r in trace.requests[:3]]


def test_the_warmup_covers_every_stratum(tmp_path: Path) -> None:
    rare = PROMPTS + json.dumps({"prompt": "Δύο λέξεις", "output_tokens": 600}).encode() + b"\n"
    trace = trace_of(imported(tmp_path, "vllm-custom", rare, loads="a=1", warmup=4))
    warm = [request.strata for request in trace.requests if request.load == WARMUP]
    assert len(warm) == 4
    assert {"el", "latin"} <= {strata["language"] for strata in warm}


def test_thin_strata_are_warned_of(tmp_path: Path) -> None:
    rare = PROMPTS + json.dumps({"prompt": "Δύο λέξεις", "output_tokens": 5}).encode() + b"\n"
    warnings = imported(tmp_path, "vllm-custom", rare, loads="a=1", warmup=0).warnings
    assert any("language=el has 1 requests, fewer than 30" in warning for warning in warnings)
    assert not any("language=latin" in warning for warning in warnings)


def test_prompts_that_share_hash_ids_share_their_tokens(tmp_path: Path) -> None:
    trace = trace_of(
        imported(
            tmp_path, "mooncake", MOONCAKE_FILE.read_bytes(), limit=3, warmup=0, loads="a=1", spread=Spread.CONSTANT
        )
    )
    sources = records("mooncake", MOONCAKE_FILE.read_bytes())[:3]
    first, second = trace.requests[0].prompt_token_ids, trace.requests[1].prompt_token_ids
    shared = [a == b for a, b in zip(sources[0].hash_ids, sources[1].hash_ids, strict=False)].index(False)
    assert shared == 1
    assert first[:512] == second[:512]
    assert first[512:1024] != second[512:1024]


def test_the_source_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").symlink_to(tmp_path / "source.file")
    with pytest.raises(DomainError) as refused:
        imported(tmp_path, "azure", AZURE)
    assert refused.value.problems[0].field == "output"


@pytest.mark.parametrize(
    "text", ["", "a=", "a=0", "A=1", "a=1,a=2", "warmup=1", "a=1,b=1", "a=2clients@5", "a=0clients", "a=1x", "a=nan"]
)
def test_loads_that_say_nothing_are_refused(text: str) -> None:
    with pytest.raises(DomainError) as refused:
        parse_loads(text)
    assert refused.value.problems[0].field == "loads"


def test_text_that_looks_like_a_request_s_own_fields_is_left_alone(tmp_path: Path) -> None:
    """Lines are spliced, not parsed again, when their load point is known: nothing in a row may be taken for it."""
    row = {
        "timestamp": 1,
        "messages": [{"role": "user", "content": '"due_ns":0,"load":"warmup"'}],
        "max_tokens": 1,
        "chat_template_kwargs": {"due_ns": 0, "load": "warmup"},
    }
    content = b"".join(json.dumps(row | {"timestamp": at}).encode() + b"\n" for at in (1, 4))
    second = trace_of(imported(tmp_path, "openai", content, warmup=0)).requests[1]
    assert (second.load, second.due_ns) == ("recorded", 3 * NS_PER_S)
    assert second.chat_template_kwargs == {"due_ns": 0, "load": "warmup"}
    assert text_of(second.messages[0]) == '"due_ns":0,"load":"warmup"'
