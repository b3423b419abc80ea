"""What became of every row of a source. Nothing is dropped without a count, and the counts must add up."""

from collections import Counter
from dataclasses import dataclass, field

from pydantic import JsonValue

from app.domain.errors import DomainError, FieldProblem
from app.domain.vocabulary import NS_PER_S
from app.workloads.record import BadRow, Note, Record

BAD_ROWS_KEPT = 1_000
"""Bad rows kept whole in memory; the counts by reason go on, and a file for all of them can be asked for."""
PROBLEMS_SHOWN = 50


class RowsRefused(DomainError):
    """The source has bad rows and the choice was to refuse it then."""

    title = "The source has rows that cannot be kept"


@dataclass(slots=True)
class Tally:
    """Counts of one reading of one source. Token totals are of kept rows, as the source states them."""

    read: int = 0
    kept: int = 0
    skipped: int = 0
    bad_rows: list[BadRow] = field(default_factory=list[BadRow])
    reasons: Counter[str] = field(default_factory=Counter[str])
    notes: Counter[str] = field(default_factory=Counter[str])
    note_lines: dict[str, int] = field(default_factory=dict[str, int])
    input_tokens: int = 0
    output_tokens: int = 0
    unknown_input: int = 0
    unknown_output: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    untimed: int = 0
    out_of_order: int = 0
    _previous_ns: int | None = None

    def keep(self, record: Record) -> None:
        """Count a row that is kept."""
        self.kept += 1
        self.input_tokens += record.input_tokens or 0
        self.output_tokens += record.output_tokens or 0
        self.unknown_input += record.input_tokens is None
        self.unknown_output += record.output_tokens is None
        if record.arrival_ns is None:
            self.untimed += 1
        else:
            self._time(record.arrival_ns)

    def refuse(self, bad: BadRow) -> None:
        """Count a row, or a damaged stretch, that is not kept."""
        self.skipped += bad.rows
        self.reasons[f"{bad.field}: {bad.reason.partition(':')[0]}"] += bad.rows
        if len(self.bad_rows) < BAD_ROWS_KEPT:
            self.bad_rows.append(bad)

    def note(self, note: Note) -> None:
        """Count a remark that costs no row."""
        self.notes[note.text] += 1
        self.note_lines.setdefault(note.text, note.line)

    @property
    def span_ns(self) -> int | None:
        """From the earliest to the latest arrival; None without times."""
        return None if self.first_ns is None or self.last_ns is None else self.last_ns - self.first_ns

    def check(self) -> None:
        """Every row that was read was kept or skipped, or this program is wrong."""
        if self.read != self.kept + self.skipped:
            raise AssertionError(f"{self.read} rows read, but {self.kept} kept and {self.skipped} skipped")

    def refusal(self) -> RowsRefused:
        """All that is wrong with the source, as one error."""
        shown = [_problem(bad) for bad in self.bad_rows[:PROBLEMS_SHOWN]]
        if len(self.bad_rows) > PROBLEMS_SHOWN or self.skipped > len(self.bad_rows):
            more = f"{self.skipped} of {self.read} rows cannot be kept; the first {PROBLEMS_SHOWN} are listed"
            shown.append(FieldProblem("file", more, "see all of them with --bad-rows FILE"))
        return RowsRefused(*shown)

    def document(self) -> dict[str, JsonValue]:
        """The counts as a JSON object."""
        span_s = None if self.span_ns is None else self.span_ns / NS_PER_S
        return {
            "rows_read": self.read,
            "rows_kept": self.kept,
            "rows_skipped": self.skipped,
            "reasons": dict(self.reasons.most_common()),
            "notes": dict(self.notes),
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "rows_without_input_length": self.unknown_input,
            "rows_without_output_length": self.unknown_output,
            "rows_without_time": self.untimed,
            "rows_out_of_order": self.out_of_order,
            "span_s": span_s,
        }

    def _time(self, at_ns: int) -> None:
        self.first_ns = at_ns if self.first_ns is None else min(self.first_ns, at_ns)
        self.last_ns = at_ns if self.last_ns is None else max(self.last_ns, at_ns)
        self.out_of_order += self._previous_ns is not None and at_ns < self._previous_ns
        self._previous_ns = at_ns


def place(bad: BadRow) -> str:
    """Where a bad row stands, in words."""
    return f"line {bad.line}" if bad.line_last in {None, bad.line} else f"lines {bad.line}-{bad.line_last}"


def _problem(bad: BadRow) -> FieldProblem:
    return FieldProblem(
        f"{place(bad)}: {bad.field}", bad.reason, "correct the row, or leave bad rows out with --on-bad-row skip"
    )
