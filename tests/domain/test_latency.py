from collections.abc import Callable

import pytest

from app.domain.errors import EvidenceRefused
from app.domain.latency import (
    e2e_ns,
    goodput_rps,
    is_good,
    itl_chunk_ns,
    itl_token_ns,
    lateness_ns,
    output_throughput_tps,
    output_tokens,
    tpot_ns,
    ttft_from_sent_ns,
    ttft_ns,
    window_s,
)
from app.domain.manifest import Slo
from app.domain.observation import RequestObservation
from app.domain.vocabulary import NS_PER_S, Outcome

SLO = Slo(ttft_ms=10, tpot_ms=5, e2e_ms=40)
MS = 1_000_000


def observe(**changes: object) -> RequestObservation:
    """Due at 5 ms, sent at 6, first token at 13; then two chunks of three and one token; five tokens in 33 ms."""
    facts: dict[str, object] = {
        "request_id": "r",
        "outcome": Outcome.SUCCESS,
        "due_ns": 5 * MS,
        "sent_ns": 6 * MS,
        "first_byte_ns": 12 * MS,
        "end_ns": 34 * MS,
        "chunk_ns": (13 * MS, 22 * MS, 33 * MS),
        "chunk_tokens": (1, 3, 1),
        "token_ids": (1, 2, 3, 4, 5),
        "completion_tokens": 5,
    }
    return RequestObservation.model_validate({**facts, **changes})


def test_each_metric_is_its_formula() -> None:
    seen = observe()
    assert ttft_ns(seen) == 8 * MS
    assert ttft_from_sent_ns(seen) == 7 * MS
    assert e2e_ns(seen) == 28 * MS
    assert tpot_ns(seen) == 20 * MS / 4
    assert itl_chunk_ns(seen) == (9 * MS, 11 * MS)
    assert itl_token_ns(seen) == (3 * MS, 3 * MS, 3 * MS, 11 * MS)
    assert lateness_ns(seen) == MS


def test_ttft_plus_tpot_makes_e2e() -> None:
    seen = observe()
    ttft, tpot = ttft_ns(seen), tpot_ns(seen)
    assert ttft is not None
    assert tpot is not None
    assert ttft + tpot * (output_tokens(seen) - 1) == e2e_ns(seen)


def test_tpot_is_undefined_for_one_token_and_its_objective_does_not_apply() -> None:
    one = observe(chunk_ns=(13 * MS,), chunk_tokens=(1,), token_ids=(1,), completion_tokens=1, end_ns=14 * MS)
    assert tpot_ns(one) is None
    assert is_good(one, Slo(ttft_ms=10, tpot_ms=0.001, e2e_ms=40))


def test_absent_times_are_none_not_zero() -> None:
    refused = observe(
        outcome=Outcome.CONNECT_REFUSED,
        sent_ns=None,
        chunk_ns=(),
        chunk_tokens=(),
        token_ids=(),
        completion_tokens=None,
    )
    assert ttft_ns(refused) is None
    assert e2e_ns(refused) is None
    assert tpot_ns(refused) is None
    assert lateness_ns(refused) is None
    assert itl_chunk_ns(refused) == ()
    assert not is_good(refused, SLO)


def test_a_truncated_stream_has_a_first_token_and_no_end_to_end_time() -> None:
    cut = observe(outcome=Outcome.TRUNCATED)
    assert ttft_ns(cut) == 8 * MS
    assert e2e_ns(cut) is None


@pytest.mark.parametrize(
    "objective", [{"ttft_ms": 7.9}, {"tpot_ms": 4.9}, {"e2e_ms": 27.9}], ids=["ttft", "tpot", "e2e"]
)
def test_goodness_is_joint(objective: dict[str, float]) -> None:
    assert is_good(observe(), SLO)
    assert not is_good(observe(), SLO.model_copy(update=objective))


@pytest.mark.parametrize(
    ("changes", "measure", "name"),
    [
        ({"chunk_ns": (4 * MS, 22 * MS, 33 * MS)}, ttft_ns, "ttft"),
        ({"sent_ns": 4 * MS}, lateness_ns, "lateness"),
        ({"chunk_ns": (13 * MS, 12 * MS, 33 * MS)}, itl_chunk_ns, "itl"),
        ({"chunk_ns": (13 * MS, 14 * MS, 12 * MS)}, tpot_ns, "tpot"),
    ],
)
def test_impossible_order_is_refused_by_name(
    changes: dict[str, object], measure: Callable[[RequestObservation], object], name: str
) -> None:
    with pytest.raises(EvidenceRefused, match=name):
        measure(observe(**changes))


def test_rates_divide_by_one_window_from_first_due_to_last_end() -> None:
    failed = observe(request_id="s", outcome=Outcome.STREAM_ERROR, due_ns=0)
    run = [observe(), failed]
    seconds = window_s(run)
    assert seconds is not None
    assert seconds == 33 * MS / NS_PER_S
    assert output_throughput_tps(run, seconds) == pytest.approx(5 / 0.033)
    assert goodput_rps(run, seconds, SLO) == pytest.approx(1 / 0.033)
    assert window_s([]) is None
