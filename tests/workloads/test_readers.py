from typing import Any

import pytest

from app.domain.errors import DomainError
from app.workloads.readers.conversations import text_of
from app.workloads.readers.evalscope import REMOVED
from app.workloads.readers.lines import BLANK_LINE, LINE_BYTES_MAX, NO_LINE_END
from app.workloads.record import Record
from tests.workloads.reading import bad_rows, items, notes, records, written
from tests.workloads.samples import (
    AZURE,
    AZURE_ZONED,
    BURSTGPT,
    BURSTGPT_2,
    EVALSCOPE,
    FURTHER,
    MOONCAKE,
    OPENAI,
    SAMPLES,
    SHAREGPT,
    SPEC_BENCH,
    SPEED_BENCH,
    VLLM_CUSTOM,
    speed_bench_parquet,
)


@pytest.mark.parametrize(("name", "content"), [*SAMPLES.items(), *FURTHER.items()])
def test_written_rows_read_as_the_same_rows(name: str, content: bytes) -> None:
    first = items(name, content)
    assert first
    assert all(isinstance(item, Record) for item in first)
    rows = [record.row for record in records(name, content)]
    assert [record.row for record in records(name, written(name, rows))] == rows


@pytest.mark.parametrize("content", [AZURE, AZURE_ZONED])
def test_azure_comes_back_byte_for_byte(content: bytes) -> None:
    assert written("azure", [record.row for record in records("azure", content)]) == content


def test_rows_whose_keys_were_sorted_get_the_columns_of_their_form_back() -> None:
    for content in (BURSTGPT, BURSTGPT_2):
        rows = [dict(sorted(record.row.items())) for record in records("burstgpt", content)]
        assert written("burstgpt", rows).replace(b"\r\n", b"\n") == content


def test_sharegpt_knows_its_three_dialects_and_their_lines() -> None:
    first, second, third = records("sharegpt", SHAREGPT)
    assert [record.line for record in (first, second, third)] == [2, 8, 9]
    assert [message.role for message in first.messages] == ["user", "assistant", "user", "assistant"]
    assert first.reference == 'A long narrow inlet, "drowned" by the sea.'
    assert first.conversation
    assert [text_of(message) for message in second.messages] == ["Be brief.", "Hi \\"]
    assert third.reference == "Yes."


def test_sharegpt_may_also_be_one_object_a_line() -> None:
    lines = written("vllm-custom", [record.row for record in records("sharegpt", SHAREGPT)])
    assert [record.messages for record in records("sharegpt", lines)] == [
        record.messages for record in records("sharegpt", SHAREGPT)
    ]


def test_vllm_custom_says_prompt_and_answer_length() -> None:
    first, second = records("vllm-custom", VLLM_CUSTOM)
    assert (first.prompt, first.output_tokens, second.output_tokens) == ("What is the capital of Peru?", 10, None)
    (bad,) = bad_rows("vllm-custom", b'{"prompt": "x", "image_files": ["a.png"]}\n')
    assert bad.field == "image_files"


def test_spec_bench_takes_a_reference_as_text_list_or_list_of_accepted_answers() -> None:
    first, second, third, fourth = records("spec-bench", SPEC_BENCH)
    assert (first.reference, second.reference, third.reference, fourth.reference) == ("96", None, "Mercury", "In 1988.")
    assert [text_of(message) for message in second.messages] == ["Write a line.", "Make it rhyme."]
    assert first.labels == {"task": "math_reasoning"}


@pytest.mark.parametrize("name", ["speed-bench", "speed-bench-parquet"])
def test_a_placeholder_is_never_a_prompt(name: str) -> None:
    text = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE USING SPECDEC_BENCH"
    row = records(name, SAMPLES[name])[0].row
    asked: Any = [{"role": "user", "content": text}] if "messages" in row else [text]
    content = written(name, [row | {("messages" if "messages" in row else "turns"): asked}])
    (bad,) = bad_rows(name, content)
    assert "placeholder" in bad.reason


def test_speed_bench_keeps_all_turns_and_labels() -> None:
    first, second = records("speed-bench", SPEED_BENCH)
    assert len(first.messages) == 2
    assert first.labels == {"task": "coding", "subtask": "python", "difficulty": "easy"}
    assert second.labels == {"task": "qa", "difficulty": "hard"}


def test_parquet_rows_are_numbered_through_its_row_groups() -> None:
    assert [record.line for record in records("speed-bench-parquet", speed_bench_parquet())] == [1, 2, 3, 4, 5, 6]


def test_mooncake_says_times_in_milliseconds_and_may_have_content() -> None:
    first, second, third = records("mooncake", MOONCAKE)
    assert [record.arrival_ns for record in (first, second, third)] == [0, 1_500_000_000, 2_000_500_000]
    assert (first.input_tokens, first.output_tokens, first.hash_ids) == (700, 5, (1, 2))
    assert second.has_content is False
    assert (third.prompt, third.session, third.think_ns) == ("Hello there", "s", 250_000_000)


def test_azure_times_are_exact_to_100_ns_and_know_zones() -> None:
    times = [record.arrival_ns or 0 for record in records("azure", AZURE)]
    assert [at - times[0] for at in times] == [0, 4_314_579_000, 4_541_877_000]
    zoned = [record.arrival_ns or 0 for record in records("azure", AZURE_ZONED)]
    assert zoned[1] - zoned[0] == 7_405_000


def test_azure_times_with_and_without_a_zone_do_not_mix() -> None:
    mixed = AZURE + b"2023-11-16 18:15:52+00:00,1,1\r\n"
    (bad,) = bad_rows("azure", mixed)
    assert (bad.line, bad.field) == (5, "TIMESTAMP")


def test_burstgpt_has_two_forms_and_keeps_failed_requests() -> None:
    first, second = records("burstgpt", BURSTGPT)
    assert (first.arrival_ns, second.arrival_ns) == (5_000_000_000, 45_500_000_000)
    assert first.labels == {"task": "conversation-log", "model": "chatgpt"}
    assert records("burstgpt", BURSTGPT_2)[0].session == "1722ac82"
    failed = records("burstgpt", BURSTGPT + b"50,ChatGPT,10,0,10,API log\n")[-1]
    assert failed.output_tokens == 0


def test_evalscope_takes_numbers_and_iso_times_and_bodies_as_text() -> None:
    first, second = records("evalscope", EVALSCOPE)
    assert first.arrival_ns == 1_700_000_000_250_000_000
    assert second.arrival_ns == 1_700_000_001_000_000_000
    assert (first.max_tokens, first.output_tokens, first.asked["temperature"]) == (9, 4, 0)
    assert second.prompt == "Once"


def test_credentials_in_headers_are_not_kept() -> None:
    content = EVALSCOPE.replace(b'"X-Team": "a"', b'"Authorization": "Bearer sesame"')
    row = records("evalscope", content)[0].row
    assert row["headers"] == {"Authorization": REMOVED}


def test_openai_bodies_say_how_they_asked() -> None:
    first, second, third = records("openai", OPENAI)
    assert text_of(first.messages[1]) == "List two colours."
    assert (first.max_tokens, first.asked["stop"]) == (40, "END")
    assert (second.token_ids, second.asked["logprobs"]) == ((5, 6, 7), 3)
    assert "tools" in third.asked
    assert (first.arrival_ns, second.arrival_ns) == (12_500_000_000, 13_000_000_000)


BAD = [
    ("vllm-custom", b'{"prompt": ""}', "prompt", "is empty"),
    ("vllm-custom", b'{"prompt": 5}', "prompt", "is not text"),
    ("vllm-custom", b'{"output_tokens": 5}', "prompt", "is missing"),
    ("vllm-custom", b'{"prompt": "a", "prompt": "b"}', "row", "twice"),
    ("vllm-custom", b'{"prompt": "\\ud800"}', "row", "surrogate"),
    ("vllm-custom", b'{"prompt": "a", "output_tokens": 1e999}', "row", "not finite"),
    ("vllm-custom", b'{"prompt": "a", "output_tokens": true}', "output_tokens", "whole number"),
    ("vllm-custom", b'{"prompt": "a", "output_tokens": -1}', "output_tokens", "not between"),
    ("vllm-custom", b'{"prompt": "caf\xe9"}', "row", "not valid JSON"),
    ("vllm-custom", b"[1, 2]", "row", "not a JSON object"),
    ("vllm-custom", b'{"a":' * 2_000 + b"1" + b"}" * 2_000, "row", "nested"),
    ("spec-bench", b'{"question_id": 1, "turns": []}', "turns", "entries"),
    ("spec-bench", b'{"question_id": 1, "turns": ["a", ""]}', "turns", "empty"),
    ("sharegpt", b'{"conversations": []}', "conversations", "entries"),
    ("sharegpt", b'{"conversations": [{"from": "gpt", "value": "Hi"}]}', "conversations", "no user message"),
    ("sharegpt", b'{"conversations": [{"from": "tree", "value": "Hi"}]}', "conversations", "speaker"),
    ("mooncake", b'{"timestamp": 1}', "input_length", "missing"),
    ("mooncake", b'{"timestamp": -1, "input_length": 1}', "timestamp", "negative"),
    ("mooncake", b'{"timestamp": 1, "input_length": 1, "hash_ids": [-1]}', "hash_ids", "whole number"),
    ("mooncake", b'{"text_input": "a", "messages": []}', "text_input", "beside"),
    ("openai", b'{"timestamp": 1, "messages": [{"role": "user", "content": [{"type": "x"}]}]}', "messages", "only"),
    ("openai", b'{"timestamp": 1, "prompt": "a", "chat_template": "x"}', "chat_template", "template"),
    ("openai", b'{"timestamp": 1, "prompt": ["a", "b"]}', "prompt", "several"),
    ("openai", b'{"timestamp": "yesterday", "prompt": "a"}', "timestamp", "is not a time"),
    ("openai", b'{"timestamp": "2023-02-30 00:00:00", "prompt": "a"}', "timestamp", "exists"),
    ("openai", b'{"prompt": "a"}', "timestamp", "missing"),
    ("evalscope", b'{"timestamp": 1, "body": "{"}', "body", "not valid JSON"),
    ("evalscope", b'{"timestamp": 1, "body": {}, "completion_tokens": 0}', "completion_tokens", "not between"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "line", "field", "reason"), BAD)
def test_a_bad_row_is_named_with_its_line_field_and_reason(name: str, line: bytes, field: str, reason: str) -> None:
    (bad,) = bad_rows(name, b"\n" + line + b"\n")
    assert (bad.line, bad.field) == (2, field)
    assert reason in bad.reason


@pytest.mark.parametrize(
    ("cells", "field"),
    [
        (b"2023-11-16 18:15:46,374", "row"),
        (b"2023-11-16 18:15:46,374,44,5", "row"),
        (b"2023-11-16 18:15:46,3_74,44", "ContextTokens"),
        (b"2023-11-16 18:15:46,374,", "GeneratedTokens"),
        (b"2023-11-16T25:15:46,374,44", "TIMESTAMP"),
        (b"1901-11-16 18:15:46,374,44", "TIMESTAMP"),
        (b'"2023-11-16 18:15:46,374,44', "row"),
        (b"\xff,374,44", "row"),
    ],
)
def test_a_bad_table_row_loses_no_other(cells: bytes, field: str) -> None:
    content = AZURE.replace(b"2023-11-16 18:15:50.9951690,396,109", cells)
    (bad,) = bad_rows("azure", content)
    assert (bad.line, bad.field) == (3, field)
    assert [record.line for record in records("azure", content)] == [2, 4]


def test_bad_rows_quote_nothing_of_a_row() -> None:
    secret = "swordfish"
    for name, line, _, _ in BAD:
        for bad in bad_rows(name, line.replace(b'"a"', f'"{secret}"'.encode())):
            assert secret not in bad.reason


def test_a_table_without_its_header_is_refused_as_a_whole() -> None:
    with pytest.raises(DomainError) as refused:
        items("azure", AZURE.split(b"\r\n", 1)[1])
    assert refused.value.problems[0].field == "header"


def test_blank_lines_and_a_missing_line_end_are_remarked_upon() -> None:
    content = b"\xef\xbb\xbf" + VLLM_CUSTOM.replace(b"\n", b"\n  \n", 1).rstrip(b"\n")
    assert [(note.line, note.text) for note in notes("vllm-custom", content)] == [(2, BLANK_LINE), (3, NO_LINE_END)]
    assert [record.line for record in records("vllm-custom", content)] == [1, 3]


def test_a_line_beyond_all_measure_is_one_bad_row() -> None:
    content = b'{"prompt": "' + b"x" * (2 * LINE_BYTES_MAX) + b'"}\n' + VLLM_CUSTOM
    (bad,) = bad_rows("vllm-custom", content)
    assert (bad.line, bad.field) == (1, "line")
    assert [record.line for record in records("vllm-custom", content)] == [2, 3]
