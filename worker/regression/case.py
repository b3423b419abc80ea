"""A case: a name, why it is in the suite, and a function that raises where the engine does otherwise."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from worker.regression.bench import Bench

Check = Callable[[Bench], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Case:
    """``issues`` are public reports of what the case looks for.

    ``launch`` names the row of the method matrix that has to be started for it, instead of the method's own server.
    """

    name: str
    why: str
    check: Check
    issues: tuple[str, ...] = ()
    launch: str | None = None
    ends_server: bool = False
    """It kills the server, so that it comes last."""
