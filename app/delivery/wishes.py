"""What a route promises beside its answer, as dependencies: ``once()``, ``versioned()`` and ``sparse(Model)``.

They note the request's wish; ``app.delivery.middleware`` fulfils it. Put them after ``needs(…)``: nothing stored is
shown to whom the route would refuse.
"""

import hashlib
import re
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, cast

from fastapi import Depends, Header, Query, Request
from pydantic import BaseModel

from app.db.acting import actor
from app.delivery.repository import Answer, AnswerRepository, Claim
from app.domain.errors import DomainError, FieldProblem, IllegalTransition
from app.state import DatabaseDep, SettingsDep

KEY_HEADER: Final = "Idempotency-Key"
REPLAYED_HEADER: Final = "Idempotency-Replayed"
STATE: Final = "delivery"
UNDER_WAY_S: Final = 300
"""A request that has not ended for this long is taken to have died with its process."""
_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")


class KeyRefused(DomainError):
    """The key has no form that is accepted."""

    title = "The idempotency key was refused"


class KeyConflict(IllegalTransition):
    """The key belongs to another request, to one that has not ended, or to one whose answer is not kept."""

    title = "The idempotency key is taken"


class FieldsRefused(DomainError):
    """A field was asked for that the answer does not have."""

    title = "The fields were refused"


class Replayed(Exception):
    """Not an error: the same request was answered before, and this is the answer."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


@dataclass(slots=True)
class Wish:
    """What one request wants of its answer."""

    claim: Claim | None = None
    versioned: bool = False
    fields: frozenset[str] | None = None
    within: str | None = None
    released: bool = field(default=False)


def wish_of(request: Request) -> Wish:
    """The wish of this request, which the middleware has put there."""
    return cast("Wish", getattr(request.state, STATE))


def once(*, secret: bool = False) -> Any:
    """The route keeps its answer under the request's ``Idempotency-Key`` for a day; not if it holds a ``secret``."""
    return Depends(_once_with_secret if secret else _once)


def versioned() -> Any:
    """The route's answer has a strong ``ETag``; whoever has it already gets 304."""
    return Depends(_versioned)


def sparse(model: type[BaseModel], within: str | None = None) -> Any:
    """``?fields=a,b`` keeps only these fields of ``model``: of the answer, of each in a list, or of each ``within``."""
    known = tuple(model.model_fields)

    async def chosen(request: Request, fields: _Fields = None) -> None:
        if fields is not None:
            wish = wish_of(request)
            wish.fields, wish.within = _known(fields, known), within

    return Depends(chosen)


_Fields = Annotated[
    str | None,
    Query(max_length=1000, description="Only these fields of the answer, by name, with commas between; default all."),
]
_Key = Annotated[
    str | None,
    Header(
        alias=KEY_HEADER,
        max_length=255,
        description="Any text of your own. The same request with the same key within a day is answered as the first "
        "was, without being done again; another request with it is refused with 409.",
    ),
]
_Match = Annotated[
    str | None,
    Header(alias="If-None-Match", max_length=1000, description="An `ETag` that you have: 304 if it is still right."),
]


def _known(fields: str, known: tuple[str, ...]) -> frozenset[str]:
    names = [name.strip() for name in fields.split(",")]
    problems = [
        FieldProblem("query.fields", f"{name[:64]!r} is no field of the answer", f"choose from {', '.join(known)}")
        for name in dict.fromkeys(names)
        if name not in known
    ]
    if problems:
        raise FieldsRefused(*problems)
    return frozenset(names)


async def _versioned(request: Request, if_none_match: _Match = None) -> None:
    del if_none_match  # documented here, compared with the answer's own by the middleware
    wish_of(request).versioned = True


def _keeping(*, secret: bool) -> Callable[..., Coroutine[Any, Any, None]]:
    async def claim(request: Request, database: DatabaseDep, settings: SettingsDep, key: _Key = None) -> None:
        if key is None:
            return
        if not _KEY.fullmatch(key):
            raise KeyRefused.of(f"header.{KEY_HEADER}", "not 1 to 255 printable ASCII characters", "send a UUID")
        who = actor()
        claim = Claim(f"{who.project}/{who.actor}/{who.key}", key, await _fingerprint(request), keep_body=not secret)
        async with database.transaction() as session:
            earlier = await AnswerRepository(session).claim(claim, settings.idempotency_hours, UNDER_WAY_S)
        if earlier is None:
            wish_of(request).claim = claim
        elif earlier.fingerprint != claim.fingerprint:
            raise _taken("it was sent with another request", "use a new key for every new request")
        elif earlier.status is None:
            raise _taken("the same request is under way", "ask again in a second")
        elif earlier.body is None:
            raise _taken("it was done, and its answer is not kept", "look for what it made; a secret is shown once")
        else:
            raise Replayed(earlier)

    return claim


_once, _once_with_secret = _keeping(secret=False), _keeping(secret=True)


def _taken(message: str, remedy: str) -> KeyConflict:
    return KeyConflict.of(f"header.{KEY_HEADER}", message, remedy)


async def _fingerprint(request: Request) -> bytes:
    """Over all that decides what is done: method, address, kind of body and body."""
    found = hashlib.sha256()
    head = (request.method, request.url.path, request.url.query, request.headers.get("content-type", ""))
    found.update("\n".join(head).encode("utf-8", "surrogatepass") + b"\n")
    found.update(await request.body())
    return found.digest()
