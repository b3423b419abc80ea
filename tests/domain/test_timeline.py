"""A run on one clock, from known samples."""

import pytest

from app.domain.exposition import ACCEPTED_TOKENS, DRAFT_TOKENS, GENERATION_TOKENS, RUNNING
from app.domain.series import POWER, Series
from app.domain.timeline import Span, Track, timeline
from app.domain.vocabulary import NS_PER_S

AT = (0, NS_PER_S, 3 * NS_PER_S)


def track(tracks: tuple[Track, ...], name: str) -> Track:
    return next(t for t in tracks if t.name == name)


def test_offered_and_in_flight_are_counts_of_requests() -> None:
    spans = [Span(0, 2 * NS_PER_S), Span(NS_PER_S, None), Span(NS_PER_S // 2, NS_PER_S)]
    tracks = timeline(spans, ())
    assert track(tracks, "offered").values == (1, 2, 3)
    assert track(tracks, "completed").at_s == (1, 2)
    in_flight = track(tracks, "in flight")
    assert in_flight.values[-1] == 1  # one never ended
    assert max(in_flight.values) == 2


def test_counters_become_rates_and_gauges_stay() -> None:
    series = (
        Series(name=RUNNING, at_ns=AT, values=(1, 2, 3)),
        Series(name=GENERATION_TOKENS, at_ns=AT, values=(100, 150, 350)),
        Series(name=POWER, labels={"device": "GPU-1"}, at_ns=(5,), values=(400.0,)),
    )
    tracks = timeline((), series)
    assert track(tracks, "running").values == (1, 2, 3)
    assert track(tracks, "output").values == (50, 100)
    assert track(tracks, "output").at_s == (1, 3)
    assert track(tracks, "power").device == "GPU-1"
    assert {t.name for t in tracks} == {"running", "output", "power"}


def test_acceptance_is_of_what_was_drafted_between_two_samples() -> None:
    series = (
        Series(name=DRAFT_TOKENS, at_ns=AT, values=(0, 100, 100)),
        Series(name=ACCEPTED_TOKENS, at_ns=AT, values=(0, 60, 60)),
    )
    found = track(timeline((), series), "acceptance")
    assert found.values == (pytest.approx(0.6),)  # nothing was drafted in the second stretch
    assert found.at_s == (1,)
