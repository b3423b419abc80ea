"""Times of arrival in the forms that traces have, as integer nanoseconds; no float ever holds one."""

import re
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

from pydantic import JsonValue

from app.domain.vocabulary import NS_PER_MS, NS_PER_S
from app.workloads.record import RowRefused

_CLOCK = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)[ T](?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<fraction>\d{1,9}))?"
    r"\s?(?P<zone>Z|z|UTC|[+-]\d\d(?::?\d\d)?)?",
    re.ASCII,
)
_DIGITS_OF_NS = 9
_NS_MAX = 1 << 62
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def clock_ns(text: str, field: str) -> tuple[int, bool]:
    """``2023-11-16 18:15:46.6805900+00:00`` as nanoseconds since 1970, and whether it names a zone.

    Up to nine decimals are exact. Without a zone the time is taken as UTC.
    """
    found = _CLOCK.fullmatch(text.strip())
    if found is None:
        raise RowRefused(field, "is not a time such as 2023-11-16 18:15:46.6805900")
    seconds = _seconds_since_1970(found["day"], found["time"], found["zone"], field)
    if not 0 <= seconds < _NS_MAX // NS_PER_S:
        raise RowRefused(field, "is before 1970 or after 2115")
    fraction = (found["fraction"] or "").ljust(_DIGITS_OF_NS, "0")
    return seconds * NS_PER_S + int(fraction), found["zone"] is not None


def seconds_ns(value: Decimal, field: str) -> int:
    """Seconds as nanoseconds, rounded to the nearest."""
    return _scaled(value, NS_PER_S, field)


def number_ns(value: JsonValue, field: str, unit_ns: int = NS_PER_S) -> int:
    """A JSON number of units as nanoseconds, exact to the digits that were written."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RowRefused(field, "is not a number")
    return _scaled(Decimal(repr(value)), unit_ns, field)


def moment_ns(value: JsonValue, field: str) -> int:
    """Seconds as a number or as numeric text, or an ISO time, as nanoseconds."""
    if not isinstance(value, str):
        return number_ns(value, field)
    if re.fullmatch(r"[0-9]{1,15}(?:\.[0-9]{0,12})?", value.strip(), re.ASCII):
        return seconds_ns(Decimal(value.strip()), field)
    return clock_ns(value, field)[0]


def milliseconds_ns(value: JsonValue, field: str) -> int:
    """A JSON number of milliseconds as nanoseconds."""
    return number_ns(value, field, NS_PER_MS)


def _scaled(value: Decimal, unit_ns: int, field: str) -> int:
    if not 0 <= value < Decimal(_NS_MAX) / unit_ns:
        raise RowRefused(field, "is negative or beyond any time")
    return round(value * unit_ns)


def _seconds_since_1970(day: str, time: str, zone: str | None, field: str) -> int:
    try:
        moment = datetime.fromisoformat(f"{day} {time}").replace(tzinfo=_zone(zone))
    except ValueError:
        raise RowRefused(field, "is no day or time of day that exists") from None
    return (moment - _EPOCH) // timedelta(seconds=1)


def _zone(text: str | None) -> timezone:
    if text is None or text in {"Z", "z", "UTC"}:
        return UTC
    hours, minutes = int(text[1:3]), int(text[3:].replace(":", "") or 0)
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if text.startswith("-") else offset)
