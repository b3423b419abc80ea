"""When silence is a stall: by hand, at the threshold, and against a slow stream."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.stall import STALL_NS, stall_ns

MS = 1_000_000


@pytest.mark.parametrize(
    ("chunk_ns", "gave_up_ns", "silence_ns"),
    [
        ((), 60_000 * MS, None),
        ((5 * MS,), 5 * MS + STALL_NS - 1, None),
        ((5 * MS,), 5 * MS + STALL_NS, STALL_NS),
        ((5 * MS, 10 * MS), 3_010 * MS, 3_000 * MS),
        ((5 * MS, 3_005 * MS), 5_005 * MS, None),
        ((5 * MS, 3_005 * MS), 6_005 * MS, None),
        ((5 * MS, 3_005 * MS), 6_006 * MS, 3_001 * MS),
        ((5 * MS, 3_005 * MS, 3_006 * MS), 5_006 * MS, None),
    ],
    ids=[
        "queued",
        "too short",
        "just long enough",
        "a hang",
        "slow",
        "as slow as before",
        "longer than ever",
        "slow once",
    ],
)
def test_a_stall_is_long_and_longer_than_any_gap(
    chunk_ns: tuple[int, ...], gave_up_ns: int, silence_ns: int | None
) -> None:
    assert stall_ns(chunk_ns, gave_up_ns) == silence_ns


@given(gap_ns=st.integers(1, 100 * STALL_NS), count=st.integers(2, 20), part=st.integers(0, 99))
def test_a_steady_stream_never_stalls_however_slow(gap_ns: int, count: int, part: int) -> None:
    chunk_ns = tuple(i * gap_ns for i in range(count))
    assert stall_ns(chunk_ns, chunk_ns[-1] + gap_ns * part // 100) is None
