"""Live values against real expositions of the engine, and against numbers worked out by hand."""

from pathlib import Path

import pytest

from app.domain.exposition import counter_deltas, parse_exposition
from app.domain.live import POINTS_MAX, Following, Gauges, last_lines, read_gauges
from app.domain.vocabulary import NS_PER_S

ENGINE = Path(__file__).parents[1] / "fixtures" / "engine"


def scraped(name: str, at_s: float = 0) -> Gauges:
    return read_gauges(round(at_s * NS_PER_S), (ENGINE / name).read_text())


def made(at_s: float, tokens: float, **values: float) -> Gauges:
    return Gauges(round(at_s * NS_PER_S), {"vllm:generation_tokens_total": tokens, **values})


def test_a_real_engine_s_numbers_are_those_of_the_audited_reading() -> None:
    before, after = ("ngram_metrics_before.txt", "ngram_metrics_after.txt")
    deltas = counter_deltas(*(parse_exposition((ENGINE / name).read_text()) for name in (before, after)))
    following = Following("tasks", "low", 1, 20)
    following.add(scraped(before))
    run = following.add(scraped(after, 10))
    assert run.finished == deltas.request_success == 20
    assert run.failed == 0
    assert run.tokens_per_s == pytest.approx(deltas.generation_tokens / 10)
    assert run.drafted == deltas.spec_decode_num_draft_tokens
    assert deltas.spec_decode_num_accepted_tokens_per_pos is not None
    assert deltas.spec_decode_num_drafts
    drafts = deltas.spec_decode_num_drafts
    assert run.by_position == pytest.approx([n / drafts for n in deltas.spec_decode_num_accepted_tokens_per_pos])
    assert (run.ttft_ms, run.tpot_ms) == (None, None)  # these recordings were cut to what the gates read


def test_an_arm_that_drafts_nothing_says_nothing_of_drafts() -> None:
    following = Following("tasks", "low", 1, 20)
    following.add(scraped("target_metrics_before.txt"))
    run = following.add(scraped("target_metrics_after.txt", 10))
    assert (run.drafted, run.acceptance, run.by_position) == (None, None, ())
    assert run.finished == 20


def test_times_between_outputs_are_spread_over_the_tokens_after_the_first() -> None:
    def at(outputs_s: float, begun: float, tokens: float, at_s: float) -> Gauges:
        itl, ttft = "vllm:inter_token_latency_seconds_sum", "vllm:time_to_first_token_seconds"
        return made(at_s, tokens, **{itl: outputs_s, f"{ttft}_count": begun, f"{ttft}_sum": 0.03 * begun})

    following = Following("tasks", "low", 1, 4)
    following.add(at(5.0, 10, 1000, 0))
    run = following.add(at(6.0, 12, 1202, 1))  # two requests, 200 tokens after their first in one second
    assert run.tpot_ms == pytest.approx(5.0)
    assert run.ttft_ms == pytest.approx(30.0)


def test_what_was_aborted_counts_as_failed() -> None:
    text = (
        'vllm:request_success_total{engine="0",finished_reason="stop"} 3.0\n'
        'vllm:request_success_total{engine="0",finished_reason="abort"} 2.0\n'
        'vllm:kv_cache_usage_perc{engine="0"} 0.25\nvllm:kv_cache_usage_perc{engine="1"} 0.5\n'
        'vllm:num_requests_running{engine="0"} 1.0\nvllm:num_requests_running{engine="1"} 2.0\n'
        'vllm:num_requests_waiting{engine="0"} broken\n'
    )
    following = Following("tasks", "low", 1, 9)
    following.add(read_gauges(0, text.replace("3.0", "0.0").replace('abort"} 2.0', 'abort"} 0.0')))
    run = following.add(read_gauges(NS_PER_S, text))
    assert (run.finished, run.failed, run.running, run.waiting, run.kv_cache_usage) == (3, 2, 3, 0, 0.5)


def test_a_long_run_s_history_stays_short_and_reaches_from_its_begin_to_now() -> None:
    following = Following("tasks", "low", 1, 9)
    run = following.add(made(0, 0.0))
    for second in range(1, 4000):
        run = following.add(made(second, 100.0 * second))
    assert len(run.history) <= POINTS_MAX
    assert run.history[0].at_s == 0
    assert run.history[-1].at_s > 3800
    gaps = [later.at_s - earlier.at_s for earlier, later in zip(run.history, run.history[1:], strict=False)]
    assert max(gaps) < 4000 / POINTS_MAX * 3


def test_the_end_of_a_log_is_whole_lines() -> None:
    assert last_lines("", count=3, width=5, size=99) == ()
    assert last_lines("no end yet", count=3, width=5, size=99) == ()
    assert last_lines("a\nb\nc\nhalf", count=2, width=5, size=99) == ("b", "c")
    assert last_lines("longer\nc\n", count=2, width=3, size=99) == ("lon…", "c")
    assert last_lines("aaa\nbbb\nccc\n", count=9, width=5, size=7) == ("bbb", "ccc")
