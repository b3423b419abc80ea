"""A report as text: one line per arm, workload and load, the reasons below, and the recommendation."""

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from app.domain.report import ArmResult, Estimate, Recommendation, Report, Verdict
from app.domain.rests_on import Standing
from app.domain.vocabulary import VerdictWord

HEADINGS = ("arm", "workload", "load", "verdict", "ratio [interval]", "acceptance", "mismatches", "metric")
_STYLES = {
    VerdictWord.HELPS: "bold green",
    VerdictWord.HURTS: "bold red",
    VerdictWord.EQUIVALENT: "bold",
    VerdictWord.INCONCLUSIVE: "bold",
    VerdictWord.INVALID: "bold magenta",
}


def print_verdicts(console: Console, report: Report) -> None:
    """Print the verdict table of a report; an interim or exploratory one says so in its title."""
    console.print(Text(_title(report), style="bold"), soft_wrap=True)
    if report.expiry and report.expiry.standing is not Standing.CURRENT:
        console.print(Text(report.expiry.sentence, style="bold magenta"), soft_wrap=True)
    for look in report.looks:
        console.print(Text(look.sentence), soft_wrap=True)
    for line in _lines(report):
        console.print(line, soft_wrap=True)
    for reason, where in _reasons(report):
        console.print(Text(f"  {where}: {reason}"), soft_wrap=True)
    if not report.interim:
        console.print(Text(f"Recommendation: {report.recommendation.sentence}"), soft_wrap=True)
        console.print(Text(f"Scope: {report.recommendation.scope}"), soft_wrap=True)
        for line in _command(report.recommendation):
            console.print(Text(line), soft_wrap=True)


def _command(answer: Recommendation) -> Iterator[str]:
    """One line to copy, and what is to be done before it can be."""
    if answer.command:
        yield f"{answer.command_title}:"
        yield answer.command
        yield from (f"First {line}." for line in answer.before)


def _reasons(report: Report) -> Iterator[tuple[str, str]]:
    """Each reason once, with the rows it is for."""
    rows: dict[str, list[str]] = {}
    for verdict in report.verdicts:
        for reason in verdict.reasons:
            rows.setdefault(reason, []).append(f"{verdict.arm} / {verdict.workload} / {verdict.load}")
    for reason, where in rows.items():
        yield reason, "everywhere" if len(where) == len(report.verdicts) > 1 else "; ".join(where)


def _lines(report: Report) -> Iterator[Text]:
    """Aligned by hand: a verdict is never cut or wrapped by the width of a terminal or a log."""
    results = {(r.arm, r.workload, r.load): r for r in report.results if r.stratum == "all"}
    rows = [_cells(report, verdict, results) for verdict in report.verdicts]
    widths = [max(len(row[i]) for row in [HEADINGS, *rows]) for i in range(len(HEADINGS))]
    styles = ["underline", *(_STYLES[verdict.word] for verdict in report.verdicts)]
    for row, style in zip([HEADINGS, *rows], styles, strict=True):
        yield Text("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(), style=style)


def _cells(report: Report, verdict: Verdict, results: dict[tuple[str, str, str], ArmResult]) -> tuple[str, ...]:
    key = (verdict.arm, verdict.workload, verdict.load)
    word = f"{verdict.word} (exploratory)" if verdict.exploratory else str(verdict.word)
    word = f"EXPIRED {word}" if report.expired else word
    numbers = (estimate_text(verdict.ratio), _acceptance(results.get(key)), _mismatches(report, verdict.arm))
    return (*key, word, *numbers, verdict.metric)


def _title(report: Report) -> str:
    done = f"{report.blocks_complete} of {report.blocks_planned} blocks"
    if report.interim:
        return f"INTERIM after {done}: not a decision"
    stamps = [
        *(["EXPIRED"] if report.expired else []),
        *(["EXPLORATORY: fewer than five blocks"] if report.exploratory else []),
    ]
    return f"Verdict after {done}" + (f" ({'; '.join(stamps)})" if stamps else "")


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
    return f"{found.mismatched}/{found.compared}" + (", not the target's outputs" if found.broken else "")
