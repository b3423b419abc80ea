"""What load points an import makes: the words of ``--loads`` and how arrivals are made where none are recorded."""

import math
import re
from dataclasses import dataclass

from app.domain.errors import DomainError
from app.domain.trace_header import CLIENTS_MAX
from app.domain.vocabulary import NAME_PATTERN, WARMUP
from app.workloads.choices import Spread

RECORDED = "recorded"
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_LOAD = re.compile(
    rf"(?P<name>[^=]+)(?:=(?:(?P<clients>[0-9]+)clients|(?P<rate>{_NUMBER}))(?:@(?P<seconds>{_NUMBER})|x(?P<count>[0-9]+))?)?"
)
_FORM = "write NAME, NAME=RATE, NAME=RATE@SECONDS, NAME=RATExREQUESTS or NAME=NclientsxREQUESTS, separated by commas"


@dataclass(frozen=True, slots=True)
class LoadWish:
    """One load point as asked for: without a rate at the recorded pace, without a count for all rows that are left."""

    name: str
    rate_rps: float | None = None
    clients: int | None = None
    requests: int | None = None


@dataclass(frozen=True, slots=True)
class Timing:
    """The load points and how their arrivals are made. ``seed`` and ``burstiness`` are for made arrivals only."""

    loads: tuple[LoadWish, ...] = (LoadWish(RECORDED),)
    spread: Spread | None = None
    """None: as recorded where the source has times, else Poisson."""
    seed: int = 1
    burstiness: float = 1.0
    warmup: int | None = None
    """Rows for the warm-up; None: sixteen, but at most a tenth of the rows."""


def parse_loads(text: str) -> tuple[LoadWish, ...]:
    """``low=0.5@60,high=2x500`` as wishes. Raises ``DomainError``."""
    wishes = tuple(_wish(part.strip()) for part in text.split(","))
    names = [wish.name for wish in wishes]
    if len(set(names)) < len(names) or WARMUP in names:
        raise _refused(f"a load's name is used twice or is {WARMUP}")
    if any(wish.requests is None for wish in wishes[:-1]):
        raise _refused(
            "only the last load can take the rest of the rows; the others need a number of seconds or requests"
        )
    return wishes


def _wish(part: str) -> LoadWish:
    found = _LOAD.fullmatch(part)
    if found is None or re.fullmatch(NAME_PATTERN, found["name"]) is None:
        raise _refused(f"{part[:60]!r} is no load")
    rate_rps = float(found["rate"]) if found["rate"] else None
    clients = int(found["clients"]) if found["clients"] else None
    if rate_rps == 0 or (clients is not None and not 1 <= clients <= CLIENTS_MAX):
        raise _refused(f"{part[:60]!r} offers nothing, or more than {CLIENTS_MAX} clients")
    return LoadWish(found["name"], rate_rps, clients, _requests(found, rate_rps))


def _requests(found: re.Match[str], rate_rps: float | None) -> int | None:
    if found["seconds"] and rate_rps is None:
        raise _refused("a closed loop lasts until its requests are done: give their number, not seconds")
    if found["seconds"] and rate_rps is not None:
        return max(1, math.floor(rate_rps * float(found["seconds"]) + 0.5))
    return max(1, int(found["count"])) if found["count"] else None


def _refused(message: str) -> DomainError:
    return DomainError.of("loads", message, _FORM)
