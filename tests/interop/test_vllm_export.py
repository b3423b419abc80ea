"""Our vLLM file beside a real one: the same fields, and the same figures from the same times."""

import io
import json
import zipfile
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from app.domain.evidence import CounterDeltas
from app.domain.lifecycle import RunState
from app.domain.observation import RequestObservation
from app.interop.exports.outline import RunKey
from tests.factories import make_observation
from tests.interop.evidence import exported, make_evidence, make_run, small_evidence

DATA = Path(__file__).parent.parent / "data" / "interop"
REAL: dict[str, Any] = json.loads((DATA / "vllm_bench_ngram.json").read_bytes())
NS_PER_S = 1_000_000_000
KEY = RunKey(0, "ngram-k4", "tasks", "low", 1)
CHOSEN = {"date", "endpoint_type", "backend", "label", "model_id", "tokenizer_id", "burstiness"}
"""What names the measurement, not what was measured."""
OTHERWISE = {"duration", "request_throughput", "output_throughput", "total_token_throughput", "request_goodput"}
"""vLLM's own clock runs from before its first request to after its last; goodput is asked for there."""


def seen_by_vllm(real: dict[str, Any]) -> Iterator[RequestObservation]:
    """The requests of a real file as if our client had seen them."""
    began = min(real["start_times"])
    for i, start in enumerate(real["start_times"]):
        sent = round((start - began) * NS_PER_S)
        times = accumulate(real["itls"][i], initial=real["ttfts"][i])
        chunks = tuple(sent + round(at * NS_PER_S) for at in times)
        yield make_observation(
            f"r{i}",
            due_ns=sent - round(real["queue_times"][i] * NS_PER_S),
            sent_ns=sent,
            first_byte_ns=chunks[0],
            chunk_ns=chunks,
            chunk_tokens=(1,) * len(chunks),
            end_ns=chunks[-1],
            text="",
            prompt_tokens=real["input_lens"][i],
            completion_tokens=real["output_lens"][i],
        )


@pytest.fixture(scope="module")
def ours() -> dict[str, Any]:
    rates = REAL["spec_decode_per_position_acceptance_rates"]
    counters = CounterDeltas(
        prompt_tokens=REAL["total_input_tokens"],
        generation_tokens=REAL["total_output_tokens"],
        request_success=REAL["completed"],
        num_preemptions=0,
        spec_decode_num_drafts=REAL["spec_decode_num_drafts"],
        spec_decode_num_draft_tokens=REAL["spec_decode_draft_tokens"],
        spec_decode_num_accepted_tokens=REAL["spec_decode_accepted_tokens"],
        spec_decode_num_accepted_tokens_per_pos=tuple(round(r * REAL["spec_decode_num_drafts"]) for r in rates),
    )
    run = make_run([*seen_by_vllm(REAL)], counters=counters)
    return json.loads(exported(make_evidence(run), "vllm", KEY))


def test_the_fields_are_vllms_in_its_order_and_one_of_ours(ours: dict[str, Any]) -> None:
    assert list(ours) == [*REAL, "verdraft"]


@pytest.mark.parametrize("name", sorted(set(REAL) - CHOSEN - OTHERWISE))
def test_a_figure_is_the_one_that_vllm_computed(ours: dict[str, Any], name: str) -> None:
    if name == "itls":
        assert [pytest.approx(gaps, abs=2e-9) for gaps in REAL[name]] == ours[name]
    elif name == "start_times":
        first = min(REAL[name])
        assert ours[name] == pytest.approx([start - first for start in REAL[name]], abs=2e-9)
    else:
        assert ours[name] == (REAL[name] if isinstance(REAL[name], str) else pytest.approx(REAL[name], abs=2e-6))


def test_rates_are_over_the_time_from_first_due_to_last_byte(ours: dict[str, Any]) -> None:
    assert ours["duration"] == pytest.approx(REAL["duration"], rel=0.02)
    assert ours["request_throughput"] == pytest.approx(REAL["completed"] / ours["duration"])
    assert ours["output_throughput"] == pytest.approx(REAL["total_output_tokens"] / ours["duration"])


def test_lateness_is_in_ours_and_not_in_vllms() -> None:
    late = make_observation(due_ns=0, sent_ns=5_000_000)
    document = json.loads(exported(make_evidence(make_run([late])), "vllm", KEY))
    assert (document["ttfts"], document["queue_times"]) == ([0.015], [0.005])
    assert document["verdraft"]["from_due"] == {"ttfts_ms": [20.0], "latencies_ms": [50.0]}


def test_a_failed_request_is_zero_and_named() -> None:
    document = json.loads(exported(small_evidence(), "vllm", RunKey(0, "ngram-k4", "tasks", "low", 2)))
    assert (document["completed"], document["failed"], document["num_prompts"]) == (1, 1, 2)
    assert [document[name][1] for name in ("ttfts", "latencies", "itls", "output_lens")] == [0, 0, [], 0]
    assert document["errors"] == ["", "=HYPERLINK(0)"]
    assert (document["start_times"], document["queue_times"]) == ([0.00001, 0.25], [0.00001, 0])
    assert document["verdraft"]["outcomes"] == {"not_sent": 1, "success": 1}


def test_goodput_is_by_the_manifests_objectives_from_the_send() -> None:
    good = make_observation("good")  # first token at 20 ms, last at 50 ms; at most 500, 100 and 5,000 ms are allowed
    slow_first = make_observation("slow", chunk_ns=(600_000_000, 610_000_000), end_ns=611_000_000)
    late = make_observation("late", due_ns=-800_000_000)  # good, if it is not charged with having been sent late
    one_token = make_observation("one", chunk_ns=(20_000_000,), completion_tokens=1)
    run = make_run([good, slow_first, late, one_token])
    document = json.loads(exported(make_evidence(run), "vllm", KEY))
    assert document["request_goodput"] * document["duration"] == pytest.approx(3)
    assert document["duration"] == pytest.approx(1.411)


def test_without_drafts_there_is_no_speculation_as_in_vllm() -> None:
    counters = CounterDeltas(prompt_tokens=3, generation_tokens=4, request_success=1, num_preemptions=0)
    run = make_run([make_observation(speculation=None)], arm="target-only", counters=counters)
    document = json.loads(exported(make_evidence(run), "vllm", RunKey.of(run)))
    assert not [name for name in document if name.startswith("spec_decode")]
    assert document["label"] == "target-only"


def test_a_run_of_nothing_has_zeros() -> None:
    run = make_run([], state=RunState.FAILED, counters=None)
    document = json.loads(exported(make_evidence(run), "vllm", KEY))
    assert (document["duration"], document["p99_ttft_ms"], document["max_concurrent_requests"]) == (0, 0, 0)


def test_all_runs_are_a_zip_in_which_those_that_do_not_count_lie_apart() -> None:
    with zipfile.ZipFile(io.BytesIO(exported(small_evidence(), "vllm"))) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == [
            "not-counted/block-0/ngram-k4/tasks/low/attempt-1.json",
            "block-0/ngram-k4/tasks/low/attempt-2.json",
        ]
        document = json.loads(archive.read(archive.namelist()[1]))
    assert document["verdraft"]["counted"]


def test_the_same_evidence_gives_the_same_bytes() -> None:
    assert exported(small_evidence(), "vllm") == exported(small_evidence(), "vllm")
