"""A report as text: one line per arm × workload × load, the reasons below, and the recommendation."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.domain.report import ArmResult, Estimate, Report, Verdict
from app.domain.vocabulary import VerdictWord

WIDTH_MIN = 118
"""A verdict line is not broken in a narrow log."""
_STYLES = {
    VerdictWord.HELPS: "bold green",
    VerdictWord.HURTS: "bold red",
    VerdictWord.EQUIVALENT: "bold",
    VerdictWord.INCONCLUSIVE: "bold",
    VerdictWord.INVALID: "bold magenta",
}


def print_verdicts(console: Console, report: Report) -> None:
    """Print the verdict table of a report; an interim or exploratory one says so in its title."""
    console.print(_table(report), width=max(console.width, WIDTH_MIN), crop=False, no_wrap=True)
    for verdict in report.verdicts:
        for reason in verdict.reasons:
            line = f"  {verdict.arm} / {verdict.workload} / {verdict.load}: {reason}"
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    if not report.interim:
        console.print(f"Recommendation: {report.recommendation.sentence}", markup=False, soft_wrap=True)
        console.print(f"Scope: {report.recommendation.scope}", markup=False, highlight=False, soft_wrap=True)


def _table(report: Report) -> Table:
    table = Table(title=_title(report), title_justify="left", title_style="bold", box=None, pad_edge=False)
    for heading in ("arm", "workload", "load", "verdict"):
        table.add_column(heading, no_wrap=True)
    for heading in ("ratio [interval]", "acceptance", "mismatches"):
        table.add_column(heading, no_wrap=True, justify="right")
    table.add_column("metric", no_wrap=True)
    results = {(r.arm, r.workload, r.load): r for r in report.results if r.stratum == "all"}
    for verdict in report.verdicts:
        key = (verdict.arm, verdict.workload, verdict.load)
        table.add_row(
            *key,
            _word(verdict),
            estimate_text(verdict.ratio),
            _acceptance(results.get(key)),
            _mismatches(report, verdict.arm),
            verdict.metric,
        )
    return table


def _title(report: Report) -> str:
    done = f"{report.blocks_complete} of {report.blocks_planned} blocks"
    if report.interim:
        return f"INTERIM after {done}: not a decision"
    return f"Verdict after {done}" + (" (EXPLORATORY: fewer than five blocks)" if report.exploratory else "")


def _word(verdict: Verdict) -> Text:
    mark = " (exploratory)" if verdict.exploratory else ""
    return Text(f"{verdict.word}{mark}", style=_STYLES[verdict.word])


def estimate_text(estimate: Estimate | None) -> str:
    """``1.42 [1.31, 1.53]``; a dash where the quantity is undefined, no bracket where there is no interval."""
    if estimate is None or estimate.value is None:
        return "-"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.2f} (no interval)"
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _acceptance(outcome: ArmResult | None) -> str:
    rate = outcome.acceptance_rate.value if outcome else None
    return "-" if rate is None else f"{rate:.0%}"


def _mismatches(report: Report, arm: str) -> str:
    """Of the whole arm: greedy equality is judged over all its requests, not per load point."""
    found = next((c for c in report.correctness if c.arm == arm), None)
    if found is None:
        return "-"
    return f"{found.mismatched}/{found.compared}" + (f", {found.unexplained} unexplained" if found.unexplained else "")
