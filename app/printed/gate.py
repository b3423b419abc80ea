"""What a gate decided, as Markdown for the summary of a CI job; text that others wrote is escaped."""

from collections.abc import Iterator

from app.domain.requirement import Baseline, GateResult, Line
from app.printed.markdown import escaped, told


def gate_markdown(result: GateResult, page: str | None = None) -> str:
    """The answer, a row for each verdict, and the baseline beside it; ends in an empty line."""
    return "\n".join((*_lines(result, page), ""))


def _lines(result: GateResult, page: str | None) -> Iterator[str]:
    yield f"### Verdraft: {'passed' if result.met else 'FAILED'}: {escaped(result.name)} must be {result.require}"
    yield ""
    yield escaped(result.sentence)
    yield from (f"- {escaped(reason)}" for reason in result.reasons[1:])
    yield ""
    beside = result.against is not None
    headings = ("arm", "workload", "load", "stratum", "word", *(["baseline"] if beside else []), "ratio", "met", "why")
    yield _row(headings)
    yield _row(("---",) * len(headings))
    for line in result.lines:
        was = [str(line.baseline_word or "not there")] if beside else []
        met = "yes" if line.met else "**no**"
        words = map(escaped, (*_place(line), _word(line), *was))
        yield _row((*words, told(line.ratio), met, escaped(line.why)))
    yield ""
    if result.against is not None:
        yield from _baseline(result.against)
    yield f"Experiment `{result.experiment[:12]}`" + (f": <{page}>" if page else "")


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _place(line: Line) -> tuple[str, ...]:
    return line.arm, line.workload, line.load, line.stratum


def _word(line: Line) -> str:
    return f"{line.word} (exploratory)" if line.exploratory else str(line.word)


def _baseline(against: Baseline) -> Iterator[str]:
    yield escaped(against.sentence)
    yield ""
    if against.pins:
        yield _row(("pin that differs", "baseline", "here"))
        yield _row(("---",) * 3)
        yield from (_row(tuple(map(escaped, (pin.what, pin.was, pin.now)))) for pin in against.pins)
        yield ""
