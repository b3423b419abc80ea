"""A figure's numbers as CSV: full precision, and no text that a spreadsheet would run."""

import csv
import io

from app.figures.figure import Figure
from app.spreadsheet import written


def as_csv(figure: Figure) -> bytes:
    """A header line and a line for each row (RFC 4180)."""
    text = io.StringIO(newline="")
    lines = ([written(cell) for cell in row] for row in (figure.headers, *figure.rows))
    csv.writer(text, lineterminator="\r\n").writerows(lines)
    return text.getvalue().encode()
