import io
import json
from pathlib import Path

import pytest

from app.domain.errors import DomainError
from app.workloads.choices import OnBadRow, Spread
from app.workloads.corpus import TOLERANCE, Corpus, length_bucket
from app.workloads.joining import Blocks, Whole
from app.workloads.readers.registry import format_named
from app.workloads.tally import RowsRefused
from tests.workloads.importing import imported, tokens, trace_of
from tests.workloads.reading import records

WORDS = tuple("the ferry waits in the harbour until the tide has turned and the wind is gone".split())  # noqa: SIM905


def corpus(prompts: list[str]) -> Corpus:
    content = b"".join(json.dumps({"prompt": prompt}).encode() + b"\n" for prompt in prompts)
    return Corpus(io.BytesIO(content), format_named("vllm-custom"), tokens())


def prompts(count: int) -> list[str]:
    return [" ".join(WORDS[(n + k) % len(WORDS)] for k in range(5 + n)) + f" {n}" for n in range(count)]


def azure(lengths: list[int]) -> bytes:
    rows = [f"2023-11-16 18:15:{n:02}.0000000,{length},9\r\n" for n, length in enumerate(lengths)]
    return ("TIMESTAMP,ContextTokens,GeneratedTokens\r\n" + "".join(rows)).encode()


def mooncake(rows: list[tuple[int, list[int]]]) -> bytes:
    documents = [
        {"timestamp": 1000 * n, "input_length": length, "output_length": 4, "hash_ids": ids}
        for n, (length, ids) in enumerate(rows)
    ]
    return b"".join(json.dumps(document).encode() + b"\n" for document in documents)


@pytest.mark.parametrize("length", [1, 5, 16, 17, 18, 40, 374, 8_192])
def test_lengths_of_one_bucket_are_close(length: int) -> None:
    bucket = length_bucket(length)
    alike = [other for other in range(max(1, length // 2), 2 * length + 2) if length_bucket(other) == bucket]
    assert length in alike
    assert max(alike) <= min(alike) * (1 + TOLERANCE) + 1


def test_timing_is_the_trace_s_and_content_is_real_and_never_twice(tmp_path: Path) -> None:
    texts, counter = prompts(60), tokens()
    lengths = [counter.count(text) for text in texts]
    trace = trace_of(
        imported(
            tmp_path,
            "azure",
            azure(lengths[20:40]),
            filling=Whole(corpus(texts), reuse=False),
            counter=counter,
            warmup=0,
        )
    )
    assert [request.due_ns for request in trace.requests] == [n * 10**9 for n in range(20)]
    used = [request.prompt for request in trace.requests]
    assert len(set(used)) == 20
    assert set(used) <= set(texts)
    for request, length in zip(trace.requests, lengths[20:40], strict=True):
        assert request.input_tokens == pytest.approx(length, rel=TOLERANCE)
    assert trace.header.content_valid is True
    assert {request.strata["content"] for request in trace.requests} == {"whole-prompts"}
    assert trace.requests[0].max_tokens == 9


def test_a_corpus_is_used_up_and_then_rows_are_bad_or_prompts_are_reused(tmp_path: Path) -> None:
    text, counter = "the ferry waits", tokens()
    source = azure([counter.count(text)] * 3)
    with pytest.raises(RowsRefused) as refused:
        imported(tmp_path, "azure", source, filling=Whole(corpus([text]), reuse=False), counter=counter)
    assert [problem.field for problem in refused.value.problems] == ["line 3: input length", "line 4: input length"]
    again = Whole(corpus([text]), reuse=True)
    trace = trace_of(imported(tmp_path, "azure", source, filling=again, counter=counter, warmup=0))
    assert [request.prompt for request in trace.requests] == [text] * 3
    assert again.reused == 2


def test_a_length_that_no_prompt_has_is_a_bad_row(tmp_path: Path) -> None:
    filling = Whole(corpus(prompts(5)), reuse=True)
    with pytest.raises(RowsRefused) as refused:
        imported(tmp_path, "azure", azure([900]), filling=filling, counter=tokens())
    assert "no prompt" in refused.value.problems[0].message


def test_hash_ids_become_real_shared_prefixes(tmp_path: Path) -> None:
    counter = tokens()
    texts = prompts(80)
    rows = [(40, [7, 8, 9]), (36, [7, 8, 10]), (16, [7]), (20, [11, 12])]
    filling = Blocks(corpus(texts), counter, 16, reuse=False)
    trace = trace_of(imported(tmp_path, "mooncake", mooncake(rows), filling=filling, counter=counter, warmup=0))
    first, second, third, fourth = (request.prompt_token_ids for request in trace.requests)
    assert [len(ids) for ids in (first, second, third, fourth)] == [40, 36, 16, 20]
    assert first[:32] == second[:32]
    assert first[32:36] != second[32:36]
    assert third == first[:16]
    assert fourth[:16] != first[:16]
    stream = [i for text in texts for i in counter.ids(text)]
    assert list(first) == stream[:40]
    assert trace.header.content_valid is True


def test_hash_ids_of_another_block_size_are_refused_with_the_option(tmp_path: Path) -> None:
    filling = Blocks(corpus(prompts(80)), tokens(), 512, reuse=False)
    with pytest.raises(RowsRefused) as refused:
        imported(tmp_path, "mooncake", mooncake([(40, [1, 2, 3])]), filling=filling)
    assert "--block-tokens" in refused.value.problems[0].message


def test_running_text_ends_with_the_corpus_unless_it_may_be_reused(tmp_path: Path) -> None:
    texts, counter = prompts(3), tokens()
    size = sum(counter.count(text) for text in texts)
    source = azure([size, size])
    result = imported(
        tmp_path, "azure", source, filling=Blocks(corpus(texts), counter, 16, reuse=False), on_bad_row=OnBadRow.SKIP,
        loads="a=1", spread=Spread.CONSTANT, warmup=0,
    )  # fmt: skip
    assert (result.reading.tally.kept, result.reading.tally.skipped) == (1, 1)
    again = Blocks(corpus(texts), counter, 16, reuse=True)
    trace = trace_of(imported(tmp_path, "azure", source, filling=again, warmup=0))
    assert trace.requests[0].prompt_token_ids == trace.requests[1].prompt_token_ids
    assert again.reused == size


def test_a_corpus_of_conversations_gives_first_turns_with_their_answers() -> None:
    content = (
        b'[{"conversations": [{"from": "human", "value": "What is a fjord?"}, {"from": "gpt", "value": "An inlet."}]}]'
    )
    made = Corpus(io.BytesIO(content), format_named("sharegpt"), tokens())
    (prompt,) = list(made)
    assert (prompt.texts(), prompt.reference) == (["What is a fjord?"], "An inlet.")


def test_a_corpus_without_prompts_is_refused() -> None:
    with pytest.raises(DomainError) as refused:
        Corpus(io.BytesIO(azure([5])), format_named("azure"), tokens())
    assert refused.value.problems[0].field == "corpus"


def test_rows_with_content_keep_it_beside_a_corpus(tmp_path: Path) -> None:
    content = (
        b'{"timestamp": 0, "text_input": "Mine", "output_length": 2}\n'
        b'{"timestamp": 9, "input_length": 3, "output_length": 2}\n'
    )
    assert records("mooncake", content)[0].has_content
    filling = Blocks(corpus(prompts(9)), tokens(), 16, reuse=False)
    first, second = trace_of(imported(tmp_path, "mooncake", content, filling=filling, warmup=0)).requests
    assert first.prompt == "Mine"
    assert len(second.prompt_token_ids) == 3
