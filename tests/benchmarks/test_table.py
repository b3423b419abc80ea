from pathlib import Path

import pytest

from benchmarks.replay.bars import Bar
from benchmarks.replay.capacity import KernelLimit
from benchmarks.replay.judging import Figures
from benchmarks.replay.runs import Run
from benchmarks.replay.table import report, write_section


def run(repeat: int, lateness_p99_ms: float, problem: str | None = None) -> Run:
    figures = None if problem else Figures(1000, 1.0, 0.01, lateness_p99_ms, 9.0)
    return Run("verdraft", 100.0, repeat, 1000, figures, problem, 1.0)


def test_a_figure_that_one_repeat_lacks_is_not_shown() -> None:
    whole, *_ = report([run(0, 0.1), run(1, 0.3)], [], [])
    assert "0.200 [0.100, 0.300]" in whole.rows[0]
    broken, _, problems, _ = report([run(0, 0.1), run(1, 0.3, "ended with 1")], [], [])
    assert "0.100 [0.100, 0.100]" not in broken.rows[0]
    assert problems.rows == [("100", "verdraft", "1", "ended with 1")]


def test_what_misses_its_bar_is_short() -> None:
    _, judged, _, limits = report([], [Bar(100, "a", "x|y", met=True), Bar(100, "b", "z", met=False)], [
        KernelLimit("tcp", 1e5, 2e5)
    ])  # fmt: skip
    assert [row[-1] for row in judged.rows] == ["", "SHORT"]
    assert "| 100 | a | x\\|y |  |\n" in judged.markdown()
    assert limits.rows == [("tcp", "100,000", "200,000")]


def test_only_what_is_between_the_marks_is_replaced(tmp_path: Path) -> None:
    document = tmp_path / "d.md"
    document.write_text("before\n<!-- begin bench-replay -->\nold\n<!-- end bench-replay -->\nafter\n")
    write_section(document, "new \\1")
    expected = "before\n<!-- begin bench-replay -->\nnew \\1\n<!-- end bench-replay -->\nafter\n"
    assert document.read_text() == expected
    (tmp_path / "none.md").write_text("nothing")
    with pytest.raises(ValueError, match="has no lines"):
        write_section(tmp_path / "none.md", "new")
