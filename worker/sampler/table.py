"""The table of what a runtime's sampler does."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table

from app.domain.sampler_judgment import LEVEL, Assertion, AssertionOutcome
from worker.sampler.driving import SamplerReport

_ORDER = (AssertionOutcome.FAIL, AssertionOutcome.NOT_CHECKABLE, AssertionOutcome.PASS)


def show(report: SamplerReport, console: Console) -> None:
    """Every assertion, the failed first, then what could not be asked and what is said in the end."""
    title = f"{report.sampler} of vLLM {report.version} ({report.device}, kernels: {report.kernels})"
    console.print(title, highlight=False, soft_wrap=True)
    console.print(_table(report.assertions))
    for line in _lines(report):
        console.print(line, highlight=False, soft_wrap=True)


def _table(assertions: Sequence[Assertion]) -> Table:
    table = Table("outcome", "case", "claim", "rows", "G", "df", "p", "variation", "at most", "detects", "why")
    for one in sorted(assertions, key=lambda a: _ORDER.index(a.outcome)):
        figures = (_figure(one.g, ".1f"), _figure(one.df, "d"), _figure(one.p, ".2g"), _figure(one.variation, ".4f"))
        bounds = (_figure(one.variation_bound, ".4f"), _figure(one.detectable_ncp, ".4f"))
        table.add_row(str(one.outcome), one.case, one.claim, f"{one.samples:,}", *figures, *bounds, one.words)
    return table


def _lines(report: SamplerReport) -> Iterator[str]:
    for case, error in report.errors.items():
        yield f"{case}: the engine cannot: {error}"
    for what, why in report.not_driven.items():
        yield f"not driven: {what}: {why}"
    yield f"{_tally(report.assertions)}; each assertion accuses a right sampler once in {1 / LEVEL:,.0f}"
    if report.parameters_lost:
        yield f"sampling parameters do not reach drafted places: {report.parameters_lost}"
        yield f"with that one function put right: {_tally(report.repaired)}"


def _tally(assertions: Sequence[Assertion]) -> str:
    outcomes = [one.outcome for one in assertions]
    return ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in _ORDER)


def _figure(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
