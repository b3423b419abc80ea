"""Scrapes of real engines: exact counter differences, and refusal of what cannot be trusted."""

from pathlib import Path

import pytest

from app.domain.errors import EvidenceRefused
from app.domain.exposition import (
    ACCEPTED_TOKENS,
    DRAFTS,
    GENERATION_TOKENS,
    canary_facts,
    counter_deltas,
    parse_exposition,
)
from app.domain.startup import CanaryFacts

FIXTURES = Path(__file__).parents[1] / "fixtures" / "engine"


def text(name: str) -> str:
    return (FIXTURES / f"{name}.txt").read_text()


def test_deltas_of_an_engine_that_drafts() -> None:
    deltas = counter_deltas(
        parse_exposition(text("ngram_metrics_before")), parse_exposition(text("ngram_metrics_after"))
    )
    assert (deltas.request_success, deltas.generation_tokens, deltas.num_preemptions) == (20, 1920, 0)
    assert deltas.spec_decode_num_drafts == 457
    assert deltas.spec_decode_num_draft_tokens == 1771
    assert deltas.spec_decode_num_accepted_tokens == 1060
    assert deltas.spec_decode_num_accepted_tokens_per_pos == (336, 283, 232, 209)


def test_the_baseline_has_no_speculative_counters() -> None:
    before, after = (parse_exposition(text(f"target_metrics_{edge}")) for edge in ("before", "after"))
    deltas = counter_deltas(before, after)
    assert deltas.request_success == 20
    assert deltas.spec_decode_num_drafts is None
    assert deltas.spec_decode_num_accepted_tokens_per_pos is None


def test_engines_of_one_server_are_summed() -> None:
    second = text("ngram_metrics_after") + '\nvllm:spec_decode_num_drafts_total{engine="1",model_name="tgt"} 43.0\n'
    assert parse_exposition(second).value(DRAFTS) == 500
    assert parse_exposition(second).value(DRAFTS, engine="1") == 43


def test_creation_times_are_no_counters() -> None:
    assert not any(name.endswith("_created") for name in parse_exposition(text("ngram_metrics_after")).samples)


def test_aborted_requests_are_not_served() -> None:
    before = parse_exposition(text("target_metrics_before"))
    aborted = text("target_metrics_after").replace(
        'finished_reason="abort",model_name="tgt"} 0.0', 'finished_reason="abort",model_name="tgt"} 5.0'
    )
    assert aborted != text("target_metrics_after")
    assert counter_deltas(before, parse_exposition(aborted)).request_success == 20


def test_a_counter_that_goes_backwards_is_refused_by_name() -> None:
    before, after = parse_exposition(text("ngram_metrics_before")), parse_exposition(text("ngram_metrics_after"))
    with pytest.raises(EvidenceRefused, match="backwards"):
        counter_deltas(after, before)


def test_a_restarted_server_is_refused() -> None:
    restarted = parse_exposition("process_start_time_seconds 1.0\n" + text("ngram_metrics_after"))
    with pytest.raises(EvidenceRefused, match="restarted"):
        counter_deltas(parse_exposition(text("ngram_metrics_before")), restarted)


@pytest.mark.parametrize("name", [GENERATION_TOKENS, ACCEPTED_TOKENS])
def test_a_missing_metric_is_refused_by_name(name: str) -> None:
    lines = [line for line in text("ngram_metrics_after").splitlines() if name not in line]
    with pytest.raises(EvidenceRefused) as caught:
        counter_deltas(parse_exposition(text("ngram_metrics_before")), parse_exposition("\n".join(lines)))
    assert [problem.field for problem in caught.value.problems] == [name]


def test_text_that_is_no_exposition_is_refused() -> None:
    with pytest.raises(EvidenceRefused, match="not Prometheus text"):
        parse_exposition("<html>not metrics</html>")


def test_what_a_canary_leaves_in_the_counters() -> None:
    drafting = parse_exposition(text("ngram_metrics_after"))
    assert canary_facts(drafting) == CanaryFacts(exposes_speculation=True, drafted=1771, accepted=1060)
    assert canary_facts(parse_exposition(text("target_metrics_after"))) == CanaryFacts(exposes_speculation=False)
    odd = parse_exposition(f'{DRAFTS}{{engine="0"}} 1.0\n')
    assert canary_facts(odd) == CanaryFacts(exposes_speculation=True)
