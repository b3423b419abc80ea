import inspect
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import latency
from app.domain.errors import EvidenceRefused
from app.domain.latency import (
    e2e_from_sent_ns,
    e2e_ns,
    is_good,
    itl_burst_ns,
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
from tests.domain.evidence_factory import make_observation

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
    assert e2e_from_sent_ns(seen) == 27 * MS
    assert tpot_ns(seen) == 20 * MS / 4
    assert itl_chunk_ns(seen) == (9 * MS, 11 * MS)
    assert itl_token_ns(seen) == (3 * MS, 3 * MS, 3 * MS, 11 * MS)
    assert itl_burst_ns(seen) == (9 * MS, 0, 0, 11 * MS)
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
    assert e2e_from_sent_ns(refused) is None
    assert itl_chunk_ns(refused) == itl_token_ns(refused) == itl_burst_ns(refused) == ()
    assert not is_good(refused, SLO)


def test_a_truncated_stream_has_a_first_token_and_no_end_to_end_time() -> None:
    cut = observe(outcome=Outcome.TRUNCATED)
    assert ttft_ns(cut) == 8 * MS
    assert e2e_ns(cut) is e2e_from_sent_ns(cut) is None


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
        ({"sent_ns": 14 * MS}, ttft_from_sent_ns, "ttft from sent"),
        ({"sent_ns": 34 * MS}, e2e_from_sent_ns, "e2e from sent"),
        ({"chunk_ns": (13 * MS, 22 * MS, 21 * MS)}, itl_token_ns, "itl"),
        ({"chunk_ns": (13 * MS, 22 * MS, 21 * MS)}, itl_burst_ns, "itl"),
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
    assert [is_good(o, SLO) for o in run] == [True, False]
    assert window_s([]) is None


def test_the_four_definitions_by_hand_with_several_tokens_in_the_first_chunk() -> None:
    """Two tokens at 10 ms, four at 22, one at 22 too, three at 52: a span of 42 ms over ten tokens."""
    seen = observe(
        chunk_ns=(10 * MS, 22 * MS, 22 * MS, 52 * MS),
        chunk_tokens=(2, 4, 1, 3),
        token_ids=tuple(range(10)),
        completion_tokens=10,
    )
    assert itl_chunk_ns(seen) == (12 * MS, 0, 30 * MS)
    assert itl_token_ns(seen) == (3 * MS, 3 * MS, 3 * MS, 3 * MS, 0, 10 * MS, 10 * MS, 10 * MS)
    assert itl_burst_ns(seen) == (0, 12 * MS, 0, 0, 0, 0, 30 * MS, 0, 0)
    assert tpot_ns(seen) == pytest.approx(42 * MS / 9)


def test_chunks_of_unknown_size_have_gaps_but_no_time_per_token() -> None:
    """A server without token ids; the count for TPOT then comes from the usage."""
    seen = observe(chunk_tokens=(0, 0, 0), token_ids=())
    assert itl_chunk_ns(seen) == (9 * MS, 11 * MS)
    assert itl_token_ns(seen) == itl_burst_ns(seen) == ()
    assert tpot_ns(seen) == 20 * MS / 4
    assert itl_token_ns(observe(chunk_tokens=(1, 0, 4))) == itl_burst_ns(observe(chunk_tokens=(1, 0, 4))) == ()


CHUNKS = st.lists(st.tuples(st.integers(0, 10**12), st.integers(1, 8)), min_size=1, max_size=30)


@given(chunks=CHUNKS, late_ns=st.integers(0, 10**9), wait_ns=st.integers(0, 10**12))
def test_the_parts_sum_to_the_whole(chunks: list[tuple[int, int]], late_ns: int, wait_ns: int) -> None:
    due_ns = 7
    at_ns = due_ns + late_ns + wait_ns
    chunk_ns: list[int] = []
    for gap, _ in chunks:
        at_ns += gap
        chunk_ns.append(at_ns)
    sizes = tuple(tokens for _, tokens in chunks)
    seen = observe(due_ns=due_ns, sent_ns=due_ns + late_ns, chunk_ns=tuple(chunk_ns), chunk_tokens=sizes,
                   token_ids=tuple(range(sum(sizes))), completion_tokens=sum(sizes), end_ns=at_ns)  # fmt: skip
    span, tokens = chunk_ns[-1] - chunk_ns[0], sum(sizes)
    by_chunk, by_token, by_burst, tpot = itl_chunk_ns(seen), itl_token_ns(seen), itl_burst_ns(seen), tpot_ns(seen)
    assert (len(by_chunk), len(by_token), len(by_burst)) == (len(chunks) - 1, tokens - sizes[0], tokens - 1)
    assert sum(by_chunk) == sum(by_burst) == span
    assert sum(by_token) == pytest.approx(span)
    assert [gap for gap in by_burst if gap] == [gap for gap in by_chunk if gap]
    assert (tpot is None) == (tokens < 2)
    assert tpot is None or tpot * (tokens - 1) == pytest.approx(span)
    ttft, ttft_sent, e2e, e2e_sent = ttft_ns(seen), ttft_from_sent_ns(seen), e2e_ns(seen), e2e_from_sent_ns(seen)
    assert None not in {ttft, ttft_sent, e2e, e2e_sent}
    assert (ttft or 0) - (ttft_sent or 0) == (e2e or 0) - (e2e_sent or 0) == lateness_ns(seen) == late_ns
    assert (e2e or 0) - (ttft or 0) == span


@given(gaps=st.lists(st.integers(0, 10**12), min_size=1, max_size=30))
def test_with_one_token_a_chunk_the_definitions_agree(gaps: list[int]) -> None:
    chunk_ns = [13 * MS]
    for gap in gaps:
        chunk_ns.append(chunk_ns[-1] + gap)
    count = len(chunk_ns)
    seen = observe(chunk_ns=tuple(chunk_ns), chunk_tokens=(1,) * count, token_ids=tuple(range(count)),
                   completion_tokens=count, end_ns=chunk_ns[-1])  # fmt: skip
    assert itl_chunk_ns(seen) == itl_token_ns(seen) == itl_burst_ns(seen) == tuple(gaps)
    assert tpot_ns(seen) == pytest.approx(sum(gaps) / len(gaps))


METRICS_PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
DOCUMENTED = dict(re.findall(r"^\| `(\w+_ns)` \|.*\| ([\d., ]+) \|$", METRICS_PAGE, re.MULTILINE))


@pytest.mark.parametrize(
    "name", [name for name, _ in inspect.getmembers(latency, inspect.isfunction) if re.fullmatch(r"[a-z].*_ns", name)]
)
def test_every_latency_has_its_row_and_the_example_of_the_page_is_right(name: str) -> None:
    seen = observe(chunk_tokens=(2, 3, 1), token_ids=tuple(range(6)), completion_tokens=6)
    measured = getattr(latency, name)(seen)
    samples = measured if isinstance(measured, tuple) else (measured,)
    assert DOCUMENTED[name] == ", ".join(f"{sample / MS:g}" for sample in samples)


def test_tokens_that_are_only_claimed_are_refused_not_counted() -> None:
    claimed = make_observation("low-0").model_copy(update={"chunk_tokens": (1, 2**63 - 1), "chunk_ns": (1, 2)})
    with pytest.raises(EvidenceRefused, match=r"low-0.*claim"):
        itl_token_ns(claimed)
