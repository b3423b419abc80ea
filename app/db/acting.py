"""For whom the present request acts: set by the one place that lets requests in. Where nobody is set, all is seen."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from app.domain.access import DEFAULT_PROJECT, LOCAL, Principal

_acting: ContextVar[Principal | None] = ContextVar("acting", default=None)


@contextmanager
def acting_as(principal: Principal | None) -> Generator[None]:
    """Within it, what is read and written is ``principal``'s."""
    before = _acting.set(principal)
    try:
        yield
    finally:
        _acting.reset(before)


def act_as(principal: Principal) -> None:
    """Until the end of the surrounding ``acting_as``."""
    _acting.set(principal)


def actor() -> Principal:
    """Who acts."""
    return _acting.get() or LOCAL


def project_of_actor() -> str:
    """The project that new rows belong to."""
    principal = _acting.get()
    return DEFAULT_PROJECT if principal is None else principal.project


def visible_project() -> str | None:
    """The one project whose rows are visible; ``None`` is all."""
    principal = _acting.get()
    return None if principal is None else principal.sees_only
