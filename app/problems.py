"""Problem details (RFC 9457) on the asking side: made from our own facts, or as a service sent them."""

from collections.abc import Iterator
from typing import Any

from app.domain.errors import FieldProblem

Problem = dict[str, Any]


class Refused(Exception):
    """The service said no, or could not be asked. ``problem`` is an RFC 9457 problem-details object."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.get("detail") or problem.get("title", ""))
        self.problem = problem


def problem(title: str, *problems: FieldProblem) -> Problem:
    """A problem-details object made here, of the same shape as the service's."""
    listed = [{"field": p.field, "message": p.message, "remedy": p.remedy} for p in problems]
    detail = "; ".join(f"{p.field}: {p.message}" for p in problems)
    return {"type": "about:blank", "title": title, "status": None, "detail": detail, "problems": listed}


def complaint(refusal: Problem) -> Iterator[str]:
    """Problem details in lines for a person: the title, then each field with its remedy."""
    yield f"{refusal['title']}:"
    for item in refusal.get("problems") or [{"field": "service", "message": refusal.get("detail"), "remedy": ""}]:
        remedy = f" ({item['remedy']})" if item["remedy"] else ""
        yield f"  {item['field']}: {item['message']}{remedy}"
