"""A report as Markdown: the answer first, then verdicts with reasons, then what they rest on, then every number.

It states only what the report has; text that others wrote is escaped.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from app.domain.k_schedule import KAtLoad
from app.domain.report import Report
from app.domain.statistics import Estimate
from app.domain.verdict import Verdict
from app.domain.weighing import Weighed
from app.printed.numbers import Number, numbers

Cells = Sequence[object]

_SPECIAL = re.compile(r"([\\`*{}\[\]<>#|~]|(?<!\w)_|_(?!\w))")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]+")
_DIGITS: Final = 6
"""Significant; a reader who needs all of them takes the report as JSON."""


def markdown(report: Report) -> str:
    """The whole document, ending in a newline."""
    return "\n".join(_lines(report)) + "\n"


def escaped(value: object) -> str:
    """Text of any origin inside a line of Markdown."""
    return _SPECIAL.sub(r"\\\1", plain(str(value)))


def plain(text: str) -> str:
    """Without control characters and those that turn the reading direction."""
    return _CONTROL.sub(" ", text)


def told(estimate: Estimate | None, *, unit: bool = True) -> str:
    """Value, interval and n, or why there is none."""
    if estimate is None:
        return "none"
    if estimate.value is None:
        return escaped(f"none: {estimate.why}")
    limits = "" if estimate.low is None or estimate.high is None else f" [{_n(estimate.low)}, {_n(estimate.high)}]"
    return escaped(f"{_n(estimate.value)}{limits}{f' {estimate.unit}' if unit else ''}, n = {estimate.n}")


def _lines(report: Report) -> Iterator[str]:
    yield from _answer(report)
    yield from _verdicts(report)
    yield from _schedules(report)
    yield from _right(report)
    yield from _why(report)
    yield from _controls(report)
    yield from _costs(report)
    yield from _checklist(report)
    yield from _not_shown(report)
    yield from _pins(report)
    yield from _every_number(report)


def _answer(report: Report) -> Iterator[str]:
    yield f"# {escaped(report.name)}"
    yield ""
    stamps = [
        *([f"interim: {report.blocks_complete} of {report.blocks_planned} blocks"] if report.interim else []),
        *(["exploratory: no decision"] if report.exploratory else []),
    ]
    if report.expired and report.expiry:
        stamps.insert(0, report.expiry.sentence)
    if stamps:
        yield f"**{escaped('; '.join(stamps))}**"
        yield ""
    answer = report.recommendation
    yield escaped(answer.sentence)
    yield ""
    yield f"Scope: {escaped(answer.scope)}"
    if answer.command:
        yield ""
        yield f"{answer.command_title}:"
        yield ""
        yield f"    {plain(answer.command)}"
        yield ""
        yield from (f"First {escaped(line)}." for line in answer.before)
    yield from (f"\n{escaped(look.sentence)}" for look in report.looks)
    yield from _weighed(answer.weighed)


def _weighed(weighed: Sequence[Weighed]) -> Iterator[str]:
    if weighed:
        yield from _section("What each arm gives and costs")
        yield from (f"- {escaped(one.sentence)}" for one in weighed)


def _verdicts(report: Report) -> Iterator[str]:
    yield from _section("Verdicts")
    head = ("arm", "workload", "load", "regime", "verdict", "ratio", "metric", "reasons")
    yield from _table(head, (_verdict(verdict, expired=report.expired) for verdict in report.verdicts))


def _verdict(verdict: Verdict, *, expired: bool) -> Cells:
    word = f"{verdict.word} (exploratory)" if verdict.exploratory else verdict.word
    word = f"EXPIRED {word}" if expired else word
    ratio, why = told(verdict.ratio, unit=False), "; ".join(verdict.reasons)
    where = (verdict.arm, verdict.workload, verdict.load, verdict.regime)
    return (*map(escaped, (*where, word)), ratio, escaped(verdict.metric), escaped(why))


def _schedules(report: Report) -> Iterator[str]:
    """By load what is known, then the schedule or why there is none."""
    if not report.schedules:
        return
    yield from _section("k by batch size")
    rows = (
        (escaped(", ".join(s.arms)), escaped(s.workload), escaped(p.offered), _batches(p), _k(p.k), escaped(p.why))
        for s in report.schedules
        for p in s.at
    )
    yield from _table(("arms", "workload", "load", "running requests", "k", "because"), rows)
    for schedule in report.schedules:
        yield ""
        yield escaped(schedule.sentence)
        if schedule.speculation:
            yield ""
            yield f"    {plain(schedule.speculation)}"


def _batches(point: KAtLoad) -> str:
    return "unknown" if point.batch_low is None else f"{point.batch_low} to {point.batch_high}"


def _k(k: int | None) -> str:
    return "undecided" if k is None else str(k or "off")


def _right(report: Report) -> Iterator[str]:
    yield from _section("Is it still right?")
    same = ((n.place, n.name, told(n.estimate)) for n in numbers(report) if n.section in _RIGHT)
    yield from _table(("where", "quantity", "value"), ((escaped(p), escaped(q), v) for p, q, v in same))


_RIGHT: Final = frozenset({"correctness", "sampling", "quality", "degenerate"})
"""Sections of a report that are about outputs."""


def _why(report: Report) -> Iterator[str]:
    yield from _section("Why it is as fast as it is")
    head = ("arm", "workload", "load", "saved per request", "foretold", "measured", "in words")
    yield from _table(
        head,
        (
            (
                *map(escaped, (e.arm, e.workload, e.load)),
                *map(told, (e.saved_ms, e.foretold_request, e.measured_request)),
                escaped(e.words),
            )
            for e in report.explanations
        ),
    )


def _controls(report: Report) -> Iterator[str]:
    yield from _section("Could the numbers be trusted?")
    rows = (
        (escaped(c.name), escaped(", ".join(f"{n} {word}" for word, n in c.outcomes.items())), escaped(c.worst.words))
        for c in report.controls
    )
    yield from _table(("control", "outcomes", "what was found"), rows)


def _costs(report: Report) -> Iterator[str]:
    yield from _section("What it costs to start")
    rows = (
        (
            escaped(c.arm),
            told(c.startup_s),
            told(c.baseline_startup_s),
            escaped(c.kv_cache_tokens or "none"),
            escaped(c.baseline_kv_cache_tokens or "none"),
        )
        for c in report.costs
    )
    yield from _table(("arm", "start-up", "target-only", "KV cache tokens", "target-only"), rows)


def _checklist(report: Report) -> Iterator[str]:
    """Each check in its item, and what to do where one is not met."""
    yield from _section("Could somebody else do it again?")
    head = ("item", "check", "state", "evidence", "what to do")
    rows = (
        tuple(map(escaped, (item.title, check.what, check.state, check.evidence, check.remedy or "")))
        for item in report.checklist
        for check in item.checks
    )
    yield from _table(head, rows)


def _not_shown(report: Report) -> Iterator[str]:
    yield from _section("What this does not show")
    yield from (f"- {escaped(one)}" for one in report.not_shown)


def _pins(report: Report) -> Iterator[str]:
    """What it rests on, and what ends it; then whether that was so when it was printed."""
    yield from _section("What it rests on")
    rows = ((escaped(pin.what), escaped(pin.value), escaped(pin.expires)) for pin in report.pins)
    yield from _table(("what", "pinned as", "expires with"), (("experiment", f"`{report.experiment}`", ""), *rows))
    if report.expiry:
        yield ""
        yield escaped(report.expiry.sentence)


def _every_number(report: Report) -> Iterator[str]:
    yield from _section("Every number")
    head = ("section", "where", "quantity", "value", "low", "high", "n", "unit", "how")
    yield from _table(head, map(_row, numbers(report)))


def _row(number: Number) -> Cells:
    e = number.estimate
    how = e.source if e.why is None else f"{e.source}; {e.why}"
    where = map(escaped, (number.section, number.place, number.name))
    return (*where, _n(e.value), _n(e.low), _n(e.high), e.n, escaped(e.unit), escaped(how))


def _section(title: str) -> Iterator[str]:
    yield from ("", f"## {title}", "")


def _table(head: Sequence[str], rows: Iterable[Cells]) -> Iterator[str]:
    found = [tuple(map(str, row)) for row in rows]
    if not found:
        yield "Nothing to show."
        return
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    yield from (f"| {' | '.join(row)} |" for row in found)


def _n(value: float | None) -> str:
    return "none" if value is None else f"{value:.{_DIGITS}g}"
