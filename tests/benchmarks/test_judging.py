"""How the benchmark judges: by hand, on logs with known truth."""

import pytest

from benchmarks.replay.bars import bars
from benchmarks.replay.judging import Figures, judge
from benchmarks.replay.offer import Reported
from benchmarks.replay.referee import Served
from benchmarks.replay.runs import Run

MS = 1_000_000
TTFT_NS, GAP_NS = 50 * MS, 5 * MS


def served(number: int, late_ms: float = 0.0, chunks: int = 3) -> Served:
    """Of a rate of 100/s: due every 10 ms."""
    arrived_ns = round((10 * number + late_ms) * MS)
    departed_ns = tuple(arrived_ns + TTFT_NS + i * GAP_NS for i in range(chunks))
    return seen(f"r-{number}", arrived_ns, *departed_ns)


def seen(request_id: str, arrived_ns: int, *departed_ns: int) -> Served:
    tokens = (1,) * len(departed_ns)
    return Served(request_id=request_id, arrived_ns=arrived_ns, departed_ns=departed_ns, chunk_tokens=tokens)


def test_lateness_counts_from_the_earliest_grid_that_fits() -> None:
    log = [served(i, late_ms=7 + (2 if i == 50 else 0)) for i in range(101)]
    figures = judge(log, None, rate_rps=100, tokens=3)
    assert (figures.served, figures.lateness_p50_ms, figures.lateness_max_ms) == (101, 0, pytest.approx(2))
    assert figures.achieved == pytest.approx(1)
    assert figures.ttft_error_p50_ms is None


def test_a_client_that_falls_behind_is_late_and_short_of_its_rate() -> None:
    figures = judge([served(i, late_ms=i) for i in range(101)], None, rate_rps=100, tokens=3)
    assert figures.achieved == pytest.approx(1000 / 1100)
    assert figures.lateness_max_ms == pytest.approx(100)


def test_named_requests_are_compared_one_by_one_and_others_rank_by_rank() -> None:
    log = [served(0), seen("r-1", 10 * MS, 70 * MS, 75 * MS, 80 * MS)]
    swapped = (TTFT_NS + 10 * MS, TTFT_NS)
    gaps = (GAP_NS,) * 4
    ranked = judge(log, Reported(swapped, gaps), rate_rps=100, tokens=3)
    named = judge(log, Reported(swapped, gaps, request_ids=("r-0", "r-1")), rate_rps=100, tokens=3)
    assert (ranked.ttft_error_p99_ms, named.ttft_error_p50_ms) == (0, pytest.approx(10))
    assert named.gap_error_p99_ms == 0


def test_mean_gaps_are_compared_with_mean_gaps() -> None:
    log = [seen("r-0", 0, 0, 2 * MS, 10 * MS), served(1)]
    figures = judge(log, Reported((0, TTFT_NS), (5.0 * MS, 5.0 * MS), gaps_are_means=True), rate_rps=100, tokens=3)
    assert (figures.gap_error_p99_ms, figures.gaps_are_means) == (0, True)


def test_answers_that_were_cut_off_do_not_count() -> None:
    with pytest.raises(ValueError, match="answered 1 requests"):
        judge([served(0), served(1, chunks=2)], None, rate_rps=100, tokens=3)


def run(client: str, lateness_p99_ms: float, repeat: int = 0, *, cpu_s: float = 1.0, spun_s: float = 0.0) -> Run:
    figures = Figures(1000, 1.0, 0.01, lateness_p99_ms, 9.0, 0.01, 0.1, 0.01, 0.1)
    return Run(client, 100.0, repeat, 1000, figures, None, cpu_s, spun_s, 2**20, 10.0)


def verdicts(*runs: Run) -> dict[str, bool]:
    return {bar.demand: bar.met for bar in bars(runs)}


RATIO = "late p99 20 times below the best rival"


def test_the_best_rival_is_the_measure() -> None:
    assert verdicts(run("verdraft", 0.1), run("good", 2.0), run("bad", 9.0))[RATIO]
    assert not verdicts(run("verdraft", 0.1), run("good", 1.9), run("bad", 9.0))[RATIO]


def test_a_limit_holds_without_rivals_and_a_missing_figure_misses_it() -> None:
    assert verdicts(run("verdraft", 1.0), run("other", 50.0))["late p99 at most 1 ms"]
    assert not verdicts(run("verdraft", 1.1), run("other", 50.0))["late p99 at most 1 ms"]
    failed = Run("verdraft", 100.0, 1, 1000, None, "ended with 1", 1.0, 0.0, 1, 1.0)
    assert not verdicts(run("verdraft", 0.1), failed)["late p99 at most 1 ms"]


def test_the_median_of_the_repeats_counts() -> None:
    ours = [run("verdraft", late, repeat) for repeat, late in enumerate((0.1, 5.0, 0.2))]
    assert verdicts(*ours, run("other", 50.0))["late p99 at most 1 ms"]


def test_spinning_is_counted_apart() -> None:
    rival = run("other", 50.0, cpu_s=1.0)
    assert verdicts(run("verdraft", 0.1, cpu_s=3.0, spun_s=2.5), rival)["CPU s/1000 best"]
    assert not verdicts(run("verdraft", 0.1, cpu_s=3.0, spun_s=1.5), rival)["CPU s/1000 best"]


def test_a_mean_is_no_gap_to_be_compared_with() -> None:
    means = Run("other", 100.0, 0, 1000, Figures(9, 1, 0, 50, 50, 1, 1, 0, 0, gaps_are_means=True), None, 9, 0, 1, 1.0)
    found = {bar.demand: bar.found for bar in bars([run("verdraft", 0.1), means])}
    assert found["gap err p50 best"] == "no figure of a rival"
