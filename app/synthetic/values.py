"""Made-up people, places and things for made tasks; every value is drawn from a seeded generator."""

import random
from collections.abc import Callable
from importlib.resources import files

Scalar = str | int | float | bool


def _read_pools() -> dict[str, tuple[str, ...]]:
    _, *sections = (files("app.synthetic") / "words.txt").read_text(encoding="utf-8").split("=== ")
    return {head: tuple(body.split()) for head, body in (section.split("\n", 1) for section in sections)}


_POOLS = _read_pools()
FIRST_NAMES = _POOLS["first names"]
LAST_NAMES = _POOLS["last names"]
CITIES = _POOLS["cities"]
COUNTRIES = _POOLS["countries"]
PRODUCTS = _POOLS["products"]
COLORS = _POOLS["colors"]
STATUSES = _POOLS["statuses"]
LEVELS = _POOLS["levels"]
COMPANIES = ("Ltd", "Group", "Inc", "Partners")
WORDS = _POOLS["words"]
IDENTIFIERS = _POOLS["identifiers"]


def person(rng: random.Random) -> str:
    return f"{rng.choice(FIRST_NAMES)} {rng.choice(LAST_NAMES)}"


def email_of(rng: random.Random, name: str) -> str:
    first, last = name.lower().split()
    return f"{rng.choice((f'{first}.{last}', f'{first[0]}{last}'))}@example.{rng.choice(('com', 'org'))}"


def date(rng: random.Random) -> str:
    return f"{rng.randint(2001, 2029)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"


def clock_time(rng: random.Random) -> str:
    return f"{rng.randint(0, 23):02d}:{rng.choice(('00', '15', '30', '45'))}"


def hex_id(rng: random.Random) -> str:
    return f"{rng.getrandbits(32):08x}"


_MAKERS: dict[str, Callable[[random.Random], Scalar]] = {
    "name": person,
    "email": lambda rng: email_of(rng, person(rng)),
    "city": lambda rng: rng.choice(CITIES),
    "country": lambda rng: rng.choice(COUNTRIES),
    "date": date,
    "time": clock_time,
    "price": lambda rng: round(rng.randint(100, 99_999) / 100, 2),
    "quantity": lambda rng: rng.randint(1, 200),
    "product": lambda rng: rng.choice(PRODUCTS),
    "color": lambda rng: rng.choice(COLORS),
    "age": lambda rng: rng.randint(18, 90),
    "order_id": lambda rng: f"ORD-{rng.randint(10_000, 99_999)}",
    "status": lambda rng: rng.choice(STATUSES),
    "active": lambda rng: rng.choice((False, True)),
    "level": lambda rng: rng.choice(LEVELS),
    "host": lambda rng: f"srv{rng.randint(1, 99):02d}.example.com",
    "port": lambda rng: rng.randint(1024, 65_535),
    "version": lambda rng: f"{rng.randint(0, 9)}.{rng.randint(0, 20)}.{rng.randint(0, 20)}",
    "company": lambda rng: f"{rng.choice(LAST_NAMES)} {rng.choice(COMPANIES)}",
}
KEYS = tuple(_MAKERS)


def record(rng: random.Random, keys: list[str]) -> dict[str, Scalar]:
    """One value for each key, in the keys' order."""
    return {key: _MAKERS[key](rng) for key in keys}


def text(value: Scalar) -> str:
    """A value as it is written outside JSON: booleans in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)
