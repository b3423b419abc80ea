"""How long it still takes: at the pace of each arm so far, with the range of its fastest and slowest."""

import pytest

from app.experiments.time_left import TimeLeft, time_left


def test_each_arm_at_its_own_pace() -> None:
    walls = {"target-only": [100.0, 120.0], "ngram": [40.0, 60.0]}
    assert time_left(["target-only", "ngram", "ngram"], walls, 0) == TimeLeft(210.0, 180.0, 240.0)
    assert time_left(["ngram"], walls, 30) == TimeLeft(20.0, 10.0, 30.0)
    assert time_left(["ngram"], walls, 90) == TimeLeft(0.0, 0.0, 0.0)


def test_one_duration_has_no_range_and_none_no_time() -> None:
    assert time_left(["ngram"], {}, 0) is None
    assert time_left(["ngram", "ngram"], {"ngram": [50.0]}, 10) == TimeLeft(90.0, None, None)


def test_an_arm_not_seen_yet_is_taken_for_any_of_them() -> None:
    left = time_left(["draft"], {"target-only": [100.0, 120.0], "ngram": [50.0]}, 0)
    assert left is not None
    assert (left.expected_s, left.low_s, left.high_s) == (pytest.approx(90.0), 50.0, 120.0)
