"""``make chaos``: runs the crash matrix (``tests/chaos``) and prints one row for each thing that was done.

A row whose test failed is marked SHORT, and the command then exits with 1. Arguments go to pytest.
"""

import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

MATRIX = Path(__file__).resolve().parents[2] / "tests" / "chaos"


class Rows:
    """A pytest plugin that keeps what each test came to."""

    def __init__(self) -> None:
        self.outcomes: dict[str, tuple[str, float]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Set-up, the test itself and what is checked after it all belong to the row."""
        outcome, seconds = self.outcomes.get(report.nodeid, ("passed", 0.0))
        worse = report.outcome if report.outcome != "passed" else outcome
        self.outcomes[report.nodeid] = (worse, seconds + report.duration)

    def table(self) -> Table:
        """One row a test, in the order in which they ran."""
        table = Table("what was done", "engine", "seconds", "")
        for nodeid, (outcome, seconds) in self.outcomes.items():
            path, _, name = nodeid.partition("::")
            engine = "vLLM" if path.endswith("test_real.py") else "fake"
            word = {"passed": "ok", "skipped": "not run"}.get(outcome, "SHORT")
            table.add_row(_words(name), engine, f"{seconds:.0f}", word)
        return table


def _words(name: str) -> str:
    """``test_celery_child_killed[WARMING]`` as words."""
    test, _, case = name.removeprefix("test_").partition("[")
    return test.replace("_", " ") + (f": {case.removesuffix(']')}" if case else "")


def main() -> int:
    """The exit code: 1 where any row is SHORT."""
    rows = Rows()
    code = pytest.main([str(MATRIX), "-q", "-n0", "-m", "", *sys.argv[1:]], plugins=[rows])
    Console(width=120).print(rows.table())
    return 0 if code == pytest.ExitCode.OK else 1


if __name__ == "__main__":
    sys.exit(main())
