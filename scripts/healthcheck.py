"""Whether this container does its work (``healthcheck.py web|worker``); exits with 1 and the reason where it does not.

A measurement may be under way beside it, so it loads next to nothing: run it with ``python3 -I -S``.
"""  # noqa: INP001  (a program, not a package)

import os
import socket
import struct
import sys
from urllib.parse import SplitResult, unquote, urlsplit

TIMEOUT_S = 5
POSTGRES_SSL_REQUEST = struct.pack("!II", 8, 80877103)
"""The one question that Postgres answers, with S or N, before it knows who asks."""


def main(role: str) -> None:
    """Raises ``OSError`` where something is not as it should be."""
    if role == "web":
        port = int(os.environ.get("VERDRAFT_PORT", "8400"))
        request = b"GET /healthz HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n"
        require("the web process", ask(("127.0.0.1", port), request), b"HTTP/1.1 200")
        return
    # The worker itself is alive where this runs at all: the container ends with it.
    database, broker = (urlsplit(os.environ[name]) for name in ("VERDRAFT_DATABASE_URL", "VERDRAFT_REDIS_URL"))
    require("Postgres", ask(place(database, 5432), POSTGRES_SSL_REQUEST, 1), b"S", b"N")
    question = authentication(broker) + command("PING") + command("QUIT")
    require("Redis", ask(place(broker, 6379), question), b"+OK\r\n+PONG", b"+PONG")


def place(url: SplitResult, port: int) -> tuple[str, int]:
    return url.hostname or "127.0.0.1", url.port or port


def authentication(url: SplitResult) -> bytes:
    words = [unquote(word) for word in (url.username, url.password) if word]
    return command("AUTH", *words) if words else b""


def command(*words: str) -> bytes:
    """A command as Redis reads it."""
    encoded = [word.encode() for word in words]
    return b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded)


def ask(address: tuple[str, int], request: bytes, most: int = 4096) -> bytes:
    """What comes back until the other side closes, or the first ``most`` bytes of it."""
    with socket.create_connection(address, TIMEOUT_S) as connection, connection.makefile("rb") as answer:
        connection.sendall(request)
        return answer.read(most)


def require(who: str, answer: bytes, *expected: bytes) -> None:
    if not answer.startswith(expected):
        raise ConnectionError(f"{who} answered {answer[:80]!r}")


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except OSError as error:
        sys.exit(f"{sys.argv[1]} is not healthy: {error}")
