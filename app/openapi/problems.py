"""An example of each error that the API gives, by status."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple


class Example(NamedTuple):
    """What goes wrong, where, and what to do."""

    title: str
    field: str
    message: str
    remedy: str


EXAMPLES: Final[Mapping[int, Example]] = {
    400: Example(
        "The address holds a secret",
        "(query)",
        "a token does not belong into an address",
        "send it as `Authorization: Bearer …`; revoke this one, it may have been written to a log",
    ),
    401: Example(
        "Who asks is not known",
        "Authorization",
        "the token is unknown, revoked or expired",
        "make a new one with `verdraft token create`, or ask an administrator",
    ),
    403: Example(
        "The scope does not allow this",
        "Authorization",
        "token:ci may read; this needs submit",
        "use a credential with that scope, or ask an administrator",
    ),
    404: Example(
        "Not found",
        "experiment",
        "000000000000 names no experiment",
        "give the digest or a unique prefix of at least 12 hex digits",
    ),
    409: Example(
        "The idempotency key is taken",
        "header.Idempotency-Key",
        "it was sent with another request",
        "use a new key for every new request",
    ),
    413: Example("The body is too large", "(body)", "longer than 1048576 bytes", "send less, or split it"),
    415: Example(
        "The content type is not supported",
        "Content-Encoding",
        "compressed bodies are not read",
        "send it uncompressed",
    ),
    422: Example("The request was refused", "query.limit", "Input should be greater than or equal to 1", "correct it"),
    429: Example("Too many requests", "(rate)", "more than 60 in a minute", "come again in 7 s"),
    500: Example(
        "Internal error",
        "(server)",
        "internal error 5f0492db8269476d8376d4c464f137fa",
        "report this id; the service's log has the cause",
    ),
    503: Example("The service is not ready", "(database)", "it cannot be reached", "ask again in some seconds"),
}


def problem_example(status: int, title: str, path: str) -> dict[str, Any]:
    """Problem details as they would be answered."""
    known = EXAMPLES[status]
    return {
        "type": "about:blank",
        "title": title,
        "status": status,
        "detail": f"{known.field}: {known.message}",
        "instance": path,
        "problems": [{"field": known.field, "message": known.message, "remedy": known.remedy}],
    }
