"""The matrix in words: for the terminal, and as Markdown for a document."""

from collections.abc import Iterator

from rich.table import Table

from worker.regression.suite import CASES, OUT_OF_REACH
from worker.regression.verdicts import Cell, RegressionMatrix, Row, Status

SHORT = {Status.PASSED: "pass", Status.FAILED: "FAIL", Status.REFUSED: "refused", Status.NOT_APPLICABLE: "n/a"}
STYLES = {Status.PASSED: "green", Status.FAILED: "bold red", Status.REFUSED: "yellow", Status.NOT_APPLICABLE: "dim"}


def terminal(matrix: RegressionMatrix) -> Table:
    """Cases down, methods across."""
    table = Table("case", *(row.method for row in matrix.rows))
    for case in _cases(matrix):
        cells = [row.cell(case) for row in matrix.rows]
        table.add_row(case, *(f"[{STYLES[c.status]}]{SHORT[c.status]}[/]" if c else "" for c in cells))
    return table


def fails(matrix: RegressionMatrix) -> Iterator[str]:
    """Each failing cell with its evidence and the command that shows it alone, in lines."""
    for row, cell in matrix.fails:
        yield f"{row.method} · {cell.case}: {cell.words}"
        yield from (f"  {name:<9} {words}" for name, words in _evidence(cell) if words)
        yield f"  alone     {cell.reproduce}"


def _evidence(cell: Cell) -> tuple[tuple[str, str], ...]:
    return (
        ("expected", cell.expected),
        ("found", cell.found),
        ("request", cell.request),
        ("response", cell.response),
    )


def markdown(matrix: RegressionMatrix) -> str:
    """The matrix, what is behind every cell that is no plain pass, and each fail in full."""
    head = ["| case | " + " | ".join(row.method for row in matrix.rows) + " |", "|---|" + "---|" * len(matrix.rows)]
    lines = [*head, *(_line(matrix, case) for case in _cases(matrix)), _drafted(matrix), ""]
    reasons = list(_reasons(matrix))
    if reasons:
        lines += ["Cells that are no pass, in the engine's words or ours:", "", *reasons, ""]
    lines += [f"**{len(matrix.fails)} fails.**" if matrix.fails else "No cell fails."]
    for row, cell in matrix.fails:
        lines += ["", f"- **{row.method} · {cell.case}**: {_plain(cell.words)}"]
        lines += [f"  - {name}: {_plain(words)}" for name, words in _evidence(cell) if words]
        lines += [f"  - alone: `{cell.reproduce}`"]
    return "\n".join(lines)


def case_list() -> str:
    """Every case with its reason and the public reports behind it, and the reports that are out of reach."""
    lines = ["| case | why | public reports |", "|---|---|---|"]
    lines += [f"| {case.name} | {_plain(case.why)} | {', '.join(case.issues)} |" for case in CASES]
    lines += ["", "| public reports that no case here can look for | not applicable, because |", "|---|---|"]
    lines += [f"| {', '.join(issues)} | {_plain(reason)} |" for issues, reason in OUT_OF_REACH]
    return "\n".join(lines)


def _line(matrix: RegressionMatrix, case: str) -> str:
    cells = [row.cell(case) for row in matrix.rows]
    return f"| {case} | " + " | ".join(SHORT[cell.status] if cell else "" for cell in cells) + " |"


def _drafted(matrix: RegressionMatrix) -> str:
    told = ["" if r.drafted is None else f"{r.accepted:,} of {r.drafted:,}" for r in matrix.rows]
    return "| *accepted of drafted* | " + " | ".join(told) + " |"


def _reasons(matrix: RegressionMatrix) -> Iterator[str]:
    """One line for each reason, with the cells that it is behind."""
    behind: dict[tuple[str, str, str], list[str]] = {}
    for row in matrix.rows:
        for cell in row.cells:
            if cell.status in {Status.REFUSED, Status.NOT_APPLICABLE}:
                key = (row.method, SHORT[cell.status], cell.words)
                behind.setdefault(key, []).append(cell.case)
    for (method, status, words), cases in behind.items():
        named = "every case" if len(cases) == len(_row(matrix, method).cells) else ", ".join(cases)
        yield f"- {method}, {named}: {status}: {_plain(words)}"


def _row(matrix: RegressionMatrix, method: str) -> Row:
    return next(row for row in matrix.rows if row.method == method)


def _cases(matrix: RegressionMatrix) -> list[str]:
    """The cases that any row has, in the suite's order."""
    run = {cell.case for row in matrix.rows for cell in row.cells}
    return [case.name for case in CASES if case.name in run]


def _plain(words: str) -> str:
    return words.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
