"""The matrix in words: for the terminal, and as a Markdown table between markers of a document."""

import re
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from app.domain.capability import RuntimeCapability
from app.domain.errors import DomainError
from worker.matrix.judging import Agreement, Row, Said, Statement
from worker.matrix.outcome import Ending
from worker.matrix.reconciled import Reconciled

HEADINGS = ("method and variant", "preflight says", "the engine did", "")
RECONCILED_HEADINGS = ("method", "quantity", "sum of the requests", "engine's counter", "residual")
BROKEN = "broken"
WORDS_MAX = 160


def terminal(rows: Sequence[Row]) -> Table:
    """A table of the rows."""
    table = Table(*HEADINGS, show_lines=True)
    for row in rows:
        style = "bold red" if row.agreement is Agreement.SHORT else None
        table.add_row(*cells(row), style=style)
    return table


def cells(row: Row) -> tuple[str, str, str, str]:
    """The four cells of a row."""
    return row.case, preflight_words(row.preflight), engine_words(row), str(row.agreement)


def preflight_words(statement: Statement) -> str:
    """The outcome, and the first reason for it."""
    if statement.said is Said.PASS:
        return str(statement.said)
    more = f" (and {len(statement.reasons) - 1} more)" if len(statement.reasons) > 1 else ""
    return f"{statement.said}: {_short(statement.reasons[0])}{more}" if statement.reasons else str(statement.said)


def engine_words(row: Row) -> str:
    """What happened, and what of it was not as asked."""
    engine = row.engine
    if engine is None:
        return "not started"
    if engine.ending is not Ending.SERVED:
        return f"{engine.ending}: {_short(engine.words)}"
    drafted = f"drafted {engine.drafted}, accepted {engine.accepted}" if engine.drafted else "drafted nothing"
    told = "served" if engine.drafted is None else f"served, {drafted}"
    faults = [f"warned: {_short(w.line)}" for w in engine.failing_warnings]
    faults += [_short(words) for words in engine.problems]
    faults += [f"{name} changed from {_short(str(a))} to {_short(str(b))}" for name, (a, b) in row.unlike.items()]
    return f"{told}; but {'; '.join(faults)}" if faults else told


def markdown(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    lines = ["| " + " | ".join((*HEADINGS[:3], "agreement")) + " |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(_cell(words) for words in cells(row)) + " |" for row in rows]
    return "\n".join(lines)


def reconciled_cells(rows: Sequence[Reconciled]) -> list[tuple[str, str, str, str, str]]:
    """A line for each quantity, one for what was accepted beyond the end, and one for each broken identity.

    A method is named in its first line only.
    """
    found: list[tuple[str, str, str, str, str]] = []
    for row in rows:
        reasons = ", ".join(f"{count} by {reason}" for reason, count in row.finish_reasons.items())
        lines = [
            (line.quantity, f"{line.per_request_sum:,}", f"{line.counter_delta:,}", f"{line.residual:,}")
            for line in row.lines
        ]
        lines.append(("requests", f"{row.requests} ({reasons})", "", ""))
        lines.append(("accepted beyond the end", f"{row.beyond_the_end:,}", "", ""))
        lines += [(BROKEN, words, "", "") for words in row.broken]
        found += [(row.case if number == 0 else "", *cells) for number, cells in enumerate(lines)]
    return found


def reconciled_terminal(rows: Sequence[Reconciled]) -> Table:
    """The reconciliation as a table."""
    table = Table(*RECONCILED_HEADINGS)
    table.columns[1].no_wrap = True
    for cells in reconciled_cells(rows):
        table.add_row(*cells, style="bold red" if cells[1] == BROKEN or cells[4] not in {"0", ""} else None)
    return table


def reconciled_markdown(rows: Sequence[Reconciled]) -> str:
    """The reconciliation as a Markdown table."""
    lines = ["| " + " | ".join(RECONCILED_HEADINGS) + " |", "|---|---|--:|--:|--:|"]
    lines += ["| " + " | ".join(_cell(words) for words in cells) + " |" for cells in reconciled_cells(rows)]
    return "\n".join(lines)


def write_section(path: Path, runtime: RuntimeCapability, text: str, *, what: str = "method matrix") -> None:
    """Replace what stands between the runtime's markers in the document at ``path``.

    Raises ``DomainError`` where the document has no such markers: a table is not put just anywhere.
    """
    mark = f"{what} of {runtime.package} {runtime.version}"
    begin, end = f"<!-- begin {mark} -->", f"<!-- end {mark} -->"
    document = path.read_text() if path.exists() else ""
    if begin not in document or end not in document:
        remedy = f"add the lines {begin} and {end} where the table shall be"
        raise DomainError.of("markdown", f"{path} has no place for the {mark}", remedy)
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    path.write_text(pattern.sub(lambda _: f"{begin}\n{text}\n{end}", document))


def _short(words: str) -> str:
    told = " ".join(words.split())
    return told if len(told) <= WORDS_MAX else f"{told[: WORDS_MAX - 1]}…"


def _cell(words: str) -> str:
    return words.replace("|", "\\|").replace("<", "&lt;")
