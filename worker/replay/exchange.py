"""One request and its answer as the client process saw them: stamps and raw bytes, nothing parsed."""

from dataclasses import dataclass
from enum import StrEnum

Read = tuple[int, bytes]
"""When a read returned (nanoseconds from the start of the replay) and what it returned."""


class Ending(StrEnum):
    """How an exchange ended for the socket; what that means for the request is decided when it is parsed."""

    COMPLETE = "complete"
    CLOSED = "closed"
    REFUSED = "refused"
    DEADLINE = "deadline"
    CANCELED = "canceled"
    UNSENT = "unsent"


@dataclass(frozen=True, slots=True)
class Exchange:
    """All times in nanoseconds from the start of the replay.

    ``sent_ns`` is stamped just before the first byte was given to the kernel; ``end_ns`` when the last
    byte, or the failure, was seen.
    """

    request_id: str
    due_ns: int
    ending: Ending
    sent_ns: int | None = None
    end_ns: int | None = None
    error: str | None = None
    reads: tuple[Read, ...] = ()
