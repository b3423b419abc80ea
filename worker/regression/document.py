"""Where a matrix is kept: as JSON, added to what was there, and between its marks in a Markdown document."""

import re
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from app.domain.errors import DomainError
from worker.regression.table import case_list, markdown
from worker.regression.verdicts import RegressionMatrix, joined

CASES_MARK = "cases of the regression suite"


@dataclass(frozen=True, slots=True)
class Kept:
    """The JSON file of a matrix, if one is asked for, and the rows that were in it before."""

    path: Path | None
    earlier: RegressionMatrix | None

    def whole(self, found: RegressionMatrix) -> RegressionMatrix:
        """With what was there before."""
        return found if self.earlier is None else joined(self.earlier, found)

    def keep(self, found: RegressionMatrix) -> None:
        """Write what has been found so far."""
        if self.path is not None:
            self.path.write_text(self.whole(found).model_dump_json(indent=1) + "\n")


def read_matrix(path: Path | None) -> RegressionMatrix:
    """The matrix in a JSON file of ours. Raises ``DomainError``."""
    try:
        return RegressionMatrix.model_validate_json(b"" if path is None else path.read_bytes())
    except (OSError, ValidationError) as error:
        raise DomainError.of("json", f"{path} has no matrix to add to", "leave --add out, or name its file") from error


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
