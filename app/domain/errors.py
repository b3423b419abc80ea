"""Errors as facts: each says which field is wrong and what to do about it.

No HTTP here; ``app.errors`` maps them to problem details, the CLI prints the same object.
"""

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One wrong field. ``field`` is a dotted path such as ``arms[0].speculation.method``."""

    field: str
    message: str
    remedy: str


class DomainError(Exception):
    """Base of every error the domain or a service raises on purpose."""

    title = "The request cannot be served"

    def __init__(self, *problems: FieldProblem) -> None:
        super().__init__("; ".join(f"{p.field}: {p.message} ({p.remedy})" for p in problems))
        self.problems = problems

    @classmethod
    def of(cls, field: str, message: str, remedy: str) -> Self:
        """An error with a single problem."""
        return cls(FieldProblem(field, message, remedy))


class ManifestRefused(DomainError):
    """The manifest is malformed or asks for something that cannot be pinned or compared."""

    title = "The manifest was refused"


class TraceRefused(DomainError):
    """The trace is malformed, empty, or does not fit the manifest."""

    title = "The trace was refused"


class NotFound(DomainError):
    """The named experiment, run, trace or figure does not exist."""

    title = "Not found"


class IllegalTransition(DomainError):
    """The state machine forbids the move; terminal states are final."""

    title = "The state does not allow this"


class EvidenceRefused(DomainError):
    """Evidence is impossible or inconsistent (a negative latency, a counter that went backwards)."""

    title = "The evidence is inconsistent"
