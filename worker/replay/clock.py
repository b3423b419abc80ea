"""The one clock of a run: ``CLOCK_MONOTONIC``, so that client, scrapes and referee share an axis."""

import time
from typing import Protocol


class Clock(Protocol):
    """Answers with integer nanoseconds that never go backwards."""

    def __call__(self) -> int: ...


monotonic_ns: Clock = time.monotonic_ns
"""On Linux this reads ``CLOCK_MONOTONIC``, which is the same in every process of the host."""
