"""Distributions by hand: the share that was as fast, over blocks, with failures that never become fast."""

import math

import pytest

from app.domain.distribution import SHARES, distribution
from app.domain.report import build_report
from app.domain.vocabulary import Outcome
from tests.domain.evidence_factory import make_evidence

FAILED = math.inf


def test_the_share_is_the_mean_of_the_blocks_and_ends_below_one_where_requests_failed() -> None:
    found = distribution([[30, 10, 40, 20], [20, FAILED, 20, 40]], offered=8)
    at = dict(zip(found.ms, found.share, strict=True))
    assert at == {10: 0.125, 20: 0.5, 30: 0.625, 40: 0.875}
    assert (found.counted, found.timed, found.blocks) == (8, 7, 2)


def test_a_long_block_counts_as_one_block() -> None:
    found = distribution([[10] * 98, [20, 20]], offered=100)
    assert dict(zip(found.ms, found.share, strict=True)) == {10: 0.5, 20: 1.0}


def test_the_interval_is_students_over_blocks_and_stays_a_share() -> None:
    found = distribution([[10, 20], [10, 10], [10, 20]], offered=6)
    assert found.share[0] == pytest.approx(2 / 3)
    half = 4.302652729911275 * math.sqrt(1 / 12) / math.sqrt(3)
    assert (found.low[0], found.high[0]) == (pytest.approx(max(2 / 3 - half, 0)), 1.0)
    assert found.confidence == 0.95


def test_one_block_has_no_interval_and_none_has_no_point() -> None:
    assert distribution([[1.0, 2.0]], offered=2).low == (None, None)
    empty = distribution([[], [FAILED]], offered=1)
    assert (empty.ms, empty.share, empty.counted, empty.timed) == ((), (), 1, 0)


def test_points_are_bounded_and_hold_the_slowest() -> None:
    times = [float(n) for n in range(10_000)]
    found = distribution([times, times], offered=20_000)
    assert len(found.ms) == len(SHARES)
    assert (found.ms[0], found.ms[-1]) == (0.0, 9999.0)
    assert found.share[-1] == 1.0


def test_a_report_has_them_for_all_strata_together_only() -> None:
    report = build_report(make_evidence())
    for row in report.results:
        assert set(row.distributions) == ({"ttft_ms", "tpot_ms", "e2e_ms"} if row.stratum == "all" else set())
    for row in (r for r in report.results if r.stratum == "all"):
        found = row.distributions["e2e_ms"]
        assert found.offered == found.counted == row.offered
        assert found.timed == row.success == row.outcomes[Outcome.SUCCESS]


def test_every_block_ratio_names_its_block() -> None:
    for comparison in build_report(make_evidence()).comparisons:
        assert len(comparison.ratio_blocks) == len(comparison.block_ratios)
        assert list(comparison.ratio_blocks) == sorted(set(comparison.ratio_blocks))
