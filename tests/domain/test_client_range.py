"""How a calibration is judged: the limits, the majority, and which loads lie within the range."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.client_range import ClientAttempt, ClientCell, ClientLoad, ClientRange
from tests.factories_client import (
    NS_PER_MS,
    make_attempt,
    make_cell,
    make_client_host,
    make_client_range,
    make_late,
    make_spread,
)

COMPLAINTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("", {}),
    ("", {"lateness": make_spread(p99_ms=1.0, max_ms=80), "receive_error": make_spread(p99_ms=1.0, max_ms=80)}),
    ("", {"lateness": make_spread(p99_ms=9.9), "true_ttft_p50_ns": 500 * NS_PER_MS}),
    (
        "requests arrived late: p99 10.10 ms, at most 10.00 ms is allowed",
        {
            "lateness": make_spread(p99_ms=10.1),
            "sent_lateness": make_spread(p99_ms=10.1),
            "true_ttft_p50_ns": 500 * NS_PER_MS,
        },
    ),
    (
        (
            "requests arrived late: p99 1.01 ms, at most 1.00 ms is allowed; the client sent in time (p99 0.20 ms), "
            "the null engine was late to read; the hypervisor took 40.00 ms meanwhile"
        ),
        {"lateness": make_spread(p99_ms=1.01), "stolen_ns": 40 * NS_PER_MS},
    ),
    (
        "chunks were stamped late: p99 1.01 ms, at most 1.00 ms is allowed",
        {"receive_error": make_spread(p99_ms=1.01), "true_ttft_p50_ns": 500 * NS_PER_MS},
    ),
    ("3 of 200 requests were not served", {"unserved": 3}),
    ("0 of 200 requests were not served", {"receive_error": None}),
    ("1 of 200 answers are not the chunks and tokens that were sent", {"damaged": 1}),
    ("it crashed", {"failure": "it crashed", "unserved": 200, "lateness": None, "receive_error": None}),
)


@pytest.mark.parametrize(("words", "facts"), COMPLAINTS)
def test_an_attempt_says_what_it_fell_short_of(words: str, facts: dict[str, Any]) -> None:
    assert make_attempt(**facts).complaint == words


@pytest.mark.parametrize(
    ("tried", "decided", "passed"),
    [
        ("", False, False),
        ("k", False, False),
        ("f", False, False),
        ("kk", True, True),
        ("ff", True, False),
        ("kf", False, False),
        ("kfk", True, True),
        ("fkk", True, True),
        ("kff", True, False),
        ("fkf", True, False),
    ],
)
def test_the_majority_of_three_decides_and_one_lucky_attempt_does_not(tried: str, decided: bool, passed: bool) -> None:
    attempts = tuple(make_attempt() if one == "k" else make_late() for one in tried)
    cell = ClientCell(shape="stream", rate_rps=100, attempts=attempts)
    assert (cell.decided, cell.passed) == (decided, passed)


def test_a_cell_is_as_large_as_the_smallest_attempt_that_decided_it() -> None:
    attempts = (
        make_attempt(concurrency=9, chunks_per_s=90.0),
        make_late(concurrency=1, chunks_per_s=10.0),
        make_attempt(concurrency=8, chunks_per_s=95.0),
    )
    cell = ClientCell(shape="short", rate_rps=10, attempts=attempts)
    assert (cell.rate_rps, cell.concurrency, cell.chunks_per_s) == (10, 8, 90.0)
    assert cell.reason == "2 of 3 attempts kept time"
    failed = ClientCell(shape="short", rate_rps=10, attempts=(*attempts[:2], attempts[1]))
    assert (failed.concurrency, failed.chunks_per_s) == (1, 10.0)
    assert failed.reason.startswith("2 of 3 attempts did not keep time: requests arrived late: p99 3.50 ms")


@pytest.mark.parametrize(
    ("load", "holds"),
    [
        (ClientLoad(100, 40, 6400), True),
        (ClientLoad(64, 256, 128), True),
        (ClientLoad(100, None, None), True),
        (ClientLoad(None, 256, None), True),
        (ClientLoad(), True),
        (ClientLoad(101, None, None), False),
        (ClientLoad(None, 257, None), False),
        (ClientLoad(1, None, 6401), False),
        (ClientLoad(100, 256, None), False),
        (ClientLoad(64, 41, 129), False),
        (ClientLoad(200, 80, 12_800), False),
    ],
)
def test_a_load_is_within_the_range_where_one_passed_cell_is_as_large_in_every_respect(
    load: ClientLoad, holds: bool
) -> None:
    assert make_client_range().holds(load) is holds


def test_the_nearest_cell_is_the_one_that_covers_most() -> None:
    known = make_client_range()
    nearest = known.nearest(ClientLoad(150, 10, 7000))
    assert nearest is not None
    assert nearest.words == "100 requests/s with 40 in flight and 6,400 chunks/s"
    crowd = known.nearest(ClientLoad(None, 300, None))
    assert crowd is not None
    assert crowd.words == "64 requests/s with 256 in flight and 128 chunks/s"
    assert known.reach == "up to 100 requests/s, 256 in flight, 6,400 chunks/s"


def test_where_nothing_passed_nothing_holds() -> None:
    known = make_client_range(make_cell(passed=False))
    assert known.nearest(ClientLoad(1)) is None
    assert not known.holds(ClientLoad(1))
    assert known.reach == "no load"


SIZES = st.integers(1, 10_000)


@st.composite
def cells(draw: st.DrawFn) -> ClientCell:
    facts = {"concurrency": draw(SIZES), "chunks_per_s": float(draw(SIZES))}
    return make_cell(draw(SIZES), passed=draw(st.booleans()), **facts)


LOADS = st.builds(ClientLoad, st.none() | SIZES, st.none() | SIZES, st.none() | SIZES)
RANGES = st.lists(cells(), min_size=1, max_size=6).map(lambda found: make_client_range(*found))


@given(RANGES, st.integers(0, 5), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_what_a_passed_cell_dominates_holds(
    known: ClientRange, index: int, rate: float, crowd: float, chunks: float
) -> None:
    for cell in known.passed[index : index + 1]:
        load = ClientLoad(rate * cell.rate_rps, int(crowd * cell.concurrency), chunks * cell.chunks_per_s)
        assert known.holds(load)


@given(RANGES, LOADS)
def test_holding_is_being_dominated(known: ClientRange, load: ClientLoad) -> None:
    dominated = any(
        (load.rate_rps or 0) <= cell.rate_rps
        and (load.concurrency or 0) <= cell.concurrency
        and (load.chunks_per_s or 0) <= cell.chunks_per_s
        for cell in known.cells
        if cell.passed
    )
    assert known.holds(load) is dominated


@given(RANGES, LOADS, cells())
def test_a_further_cell_takes_nothing_away_and_adds_only_if_it_passed(
    known: ClientRange, load: ClientLoad, cell: ClientCell
) -> None:
    more = known.model_copy(update={"cells": (*known.cells, cell)})
    assert more.holds(load) >= known.holds(load)
    if not cell.passed:
        assert more.holds(load) == known.holds(load)


def test_the_document_says_what_follows_and_reading_computes_it_again() -> None:
    known = make_client_range()
    document = known.model_dump(mode="json")
    assert [cell["passed"] for cell in document["cells"]] == [True, True, False]
    assert document["cells"][2]["attempts"][0]["complaint"]
    assert ClientRange.model_validate(document) == known
    document["cells"][2]["passed"] = True
    assert ClientRange.model_validate(document) == known


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, ""),
        ({"cpu_model": "other"}, "the processor changed from chip to other"),
        ({"client_cores": (2, 3)}, "the client's cores changed from 1 to 2, 3"),
        ({"engine_cores": (1,)}, "the engine's cores changed from 0 to 1"),
        ({"kernel": "6.2"}, "the kernel changed from 6.1 to 6.2"),
        ({"python": "3.12.1"}, "Python changed from 3.11.2 to 3.12.1"),
        ({"real_time": False}, "a real-time priority for the client changed from granted to refused"),
        ({"client_digest": "8" * 64}, "the client's code changed"),
        ({"client_digest": "8" * 64, "kernel": "6.2"}, "the client's code changed; the kernel changed from 6.1 to 6.2"),
    ],
)
def test_a_host_that_changed_says_how(change: dict[str, Any], words: str) -> None:
    assert make_client_host().changes_to(make_client_host(**change)) == words


def test_an_attempt_without_times_has_its_limit() -> None:
    nothing = ClientAttempt.model_validate(make_attempt().model_dump() | {"true_ttft_p50_ns": None})
    assert nothing.lateness_limit_ns == NS_PER_MS
