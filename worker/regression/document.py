"""Put a matrix between its marks in a Markdown document, and the list of cases with it."""

import re
from pathlib import Path

from app.domain.errors import DomainError
from worker.regression.table import case_list, markdown
from worker.regression.verdicts import RegressionMatrix

CASES_MARK = "cases of the regression suite"


def write_matrix(path: Path, matrix: RegressionMatrix) -> None:
    """Replace the runtime's part, and the list of cases. Raises ``DomainError`` where the document has no place."""
    document = path.read_text() if path.exists() else ""
    for mark, text in ((f"regression matrix of {matrix.runtime}", markdown(matrix)), (CASES_MARK, case_list())):
        document = _replaced(path, document, mark, text)
    path.write_text(document)


def _replaced(path: Path, document: str, mark: str, text: str) -> str:
    begin, end = f"<!-- begin {mark} -->", f"<!-- end {mark} -->"
    if begin not in document or end not in document:
        remedy = f"add the lines {begin} and {end} where it shall be"
        raise DomainError.of("out", f"{path} has no place for the {mark}", remedy)
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    return pattern.sub(lambda _: f"{begin}\n{text}\n{end}", document)
