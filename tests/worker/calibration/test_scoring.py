"""What an attempt comes to, from a recording and a referee's log whose every stamp is known."""

from typing import Any

import pytest

from app.domain.client_range import ClientAttempt, Spread
from app.domain.observation import RequestObservation
from tests.factories import make_observation
from worker.calibration.referee import Seen
from worker.calibration.scoring import chunks_per_s, peak_in_flight, score, spread

ORIGIN_NS = 5_000_000_000
GAP_NS = 10_000_000
TTFT_NS = 20_000_000
LATE_NS, STAMP_NS = 100_000, 40_000
COUNT = 200


def observed(number: int, **fields: Any) -> RequestObservation:
    """Due each 10 ms, sent 0.03 ms late; two chunks of one and three tokens, stamped 0.04 ms late."""
    arrived_ns = number * GAP_NS + LATE_NS
    chunks = (arrived_ns + TTFT_NS + STAMP_NS, arrived_ns + 2 * TTFT_NS + STAMP_NS)
    facts = {"due_ns": number * GAP_NS, "sent_ns": number * GAP_NS + 30_000, "chunk_ns": chunks, "end_ns": chunks[-1]}
    tokens = {"token_ids": (0, 1, 2, 3), "first_byte_ns": chunks[0]}
    return make_observation(f"r-{number}", **{**facts, **tokens, **fields})


def seen(number: int, **fields: Any) -> Seen:
    arrived_ns = ORIGIN_NS + number * GAP_NS + LATE_NS
    facts = {
        "request_id": f"r-{number}",
        "arrived_ns": arrived_ns,
        "departed_ns": (arrived_ns + TTFT_NS, arrived_ns + 2 * TTFT_NS),
        "chunk_tokens": (1, 3),
    }
    return Seen.model_validate(facts | fields)


def scored(
    observations: dict[int, RequestObservation] | None = None, log: dict[int, Seen | None] | None = None
) -> ClientAttempt:
    """200 requests; those that are named are otherwise, and ``None`` never arrived."""
    every = [(observations or {}).get(i, observed(i)) for i in range(COUNT)]
    entries = [(log or {}).get(i, seen(i)) for i in range(COUNT)]
    return score(every, ORIGIN_NS, [entry for entry in entries if entry is not None], stolen_ns=7)


def test_every_number_is_that_of_the_stamps() -> None:
    attempt = scored()
    assert attempt.complaint == ""
    assert (attempt.requests, attempt.unserved, attempt.damaged, attempt.stolen_ns) == (COUNT, 0, 0, 7)
    assert attempt.lateness == Spread(p50_ns=LATE_NS, p99_ns=LATE_NS, max_ns=LATE_NS)
    assert attempt.sent_lateness == Spread(p50_ns=30_000, p99_ns=30_000, max_ns=30_000)
    assert attempt.receive_error == Spread(p50_ns=STAMP_NS, p99_ns=STAMP_NS, max_ns=STAMP_NS)
    assert attempt.true_ttft_p50_ns == TTFT_NS
    assert attempt.achieved_share == 1
    assert attempt.concurrency == 4
    assert attempt.chunks_per_s == pytest.approx(200, rel=0.01)


def test_a_delayed_server_is_seen_although_the_client_sent_in_time() -> None:
    delayed = {i: seen(i, arrived_ns=seen(i).arrived_ns + 3_000_000) for i in range(5)}
    attempt = scored(log={**delayed})
    assert attempt.lateness == Spread(p50_ns=LATE_NS, p99_ns=LATE_NS + 3_000_000, max_ns=LATE_NS + 3_000_000)
    assert attempt.complaint.startswith("requests arrived late: p99 3.10 ms")
    assert "the client sent in time" in attempt.complaint


def test_one_stall_in_two_hundred_requests_is_no_percentile() -> None:
    assert scored(log={7: seen(7, arrived_ns=seen(7).arrived_ns + 50_000_000)}).complaint == ""


def test_a_chunk_that_is_stamped_late_is_the_clients() -> None:
    late = tuple(at_ns + 2_000_000 for at_ns in observed(0).chunk_ns)
    attempt = scored({i: observed(i, chunk_ns=tuple(i * GAP_NS + at_ns for at_ns in late)) for i in range(20)})
    assert attempt.complaint.startswith("chunks were stamped late: p99 2.04 ms")


@pytest.mark.parametrize(
    "fields",
    [
        {"chunk_tokens": (4,), "chunk_ns": (30_000_000,)},
        {"chunk_tokens": (3, 1)},
        {"token_ids": (0, 1, 2, 4)},
        {"token_ids": (0, 1, 2), "chunk_tokens": (1, 2)},
        {"token_ids": (1, 0, 2, 3)},
    ],
    ids=["merged", "divided otherwise", "altered", "lost", "out of order"],
)
def test_chunks_and_tokens_match_exactly_or_the_attempt_fails(fields: dict[str, Any]) -> None:
    attempt = scored({3: observed(3, **fields)})
    assert attempt.damaged == 1
    assert attempt.complaint == "1 of 200 answers are not the chunks and tokens that were sent"


def test_what_never_arrived_or_did_not_end_well_was_not_served() -> None:
    attempt = scored({5: observed(5, outcome="truncated")}, {9: None})
    assert attempt.unserved == 2
    assert attempt.complaint == "2 of 200 requests were not served"


def test_a_server_that_saw_nothing_gives_no_numbers() -> None:
    attempt = scored(log=dict.fromkeys(range(COUNT)))
    assert (attempt.lateness, attempt.achieved_share, attempt.concurrency, attempt.chunks_per_s) == (None, None, 0, 0)
    assert attempt.complaint == "200 of 200 requests were not served"


def test_a_client_that_falls_behind_achieves_less() -> None:
    slower = {i: seen(i, arrived_ns=ORIGIN_NS + 2 * i * GAP_NS) for i in range(COUNT)}
    assert scored(log={**slower}).achieved_share == pytest.approx(0.5)


def test_what_ends_as_another_begins_is_not_in_flight_with_it() -> None:
    spans = [seen(i, arrived_ns=i * 10, departed_ns=(i * 10 + 10,), chunk_tokens=(1,)) for i in range(5)]
    assert peak_in_flight(spans) == 1
    assert peak_in_flight([*spans, seen(9, arrived_ns=5, departed_ns=(45,), chunk_tokens=(1,))]) == 2
    assert peak_in_flight([]) == 0


def test_a_rate_of_chunks_leaves_out_how_the_load_began_and_ended() -> None:
    """Answers of 1 s, ten a second for three seconds, a chunk each 0.1 s: 100 chunks/s once ten are under way."""
    log = [
        seen(i, arrived_ns=i * 10**8, departed_ns=[i * 10**8 + j * 10**8 for j in range(1, 11)], chunk_tokens=[1] * 10)
        for i in range(30)
    ]
    assert chunks_per_s(log) == pytest.approx(100, rel=0.06)
    assert chunks_per_s(log[:5]) == pytest.approx(50 / 1.4)


def test_nothing_has_no_spread() -> None:
    assert spread([]) is None
