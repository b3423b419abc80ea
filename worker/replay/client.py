"""One keep-alive connection that carries one request at a time.

A read costs one stamp, one append and the C parser's search for the end of the message;
nothing else is parsed while the replay runs.
"""

import errno
import select
import socket
from collections.abc import Callable
from typing import Protocol

import httptools

from worker.replay.clock import Clock
from worker.replay.exchange import Ending, Exchange, Read

READ_BYTES = 65536

_READ = select.EPOLLIN | select.EPOLLRDHUP
_WRITE = _READ | select.EPOLLOUT
_TRY_LATER = frozenset({errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""The server's backlog or this process's limits are full: the request waits, it is not refused."""


class TryLater(Exception):
    """No connection can be opened at this moment."""


class Follower(Protocol):
    """Whoever waits for a request's end, and may have to know the answer; called on the hot path, so it is quick."""

    def on_read(self, at_ns: int, chunk: bytes) -> None: ...
    def on_end(self, pending: "Pending") -> None: ...


class Pending:
    """A request of the plan while the replay runs; times are absolute. Mutable because it is the hot path."""

    __slots__ = ("due_ns", "end_ns", "ending", "error", "follower", "payload", "reads", "request_id", "sent_ns")

    def __init__(self, request_id: str, payload: bytes, due_ns: int) -> None:
        self.request_id = request_id
        self.payload = payload
        self.due_ns = due_ns
        self.follower: Follower | None = None
        self.sent_ns: int | None = None
        self.end_ns: int | None = None
        self.ending: Ending | None = None
        self.error: str | None = None
        self.reads: list[Read] = []

    def end(self, ending: Ending, at_ns: int, error: str | None = None) -> None:
        self.ending, self.end_ns, self.error = ending, at_ns, error
        if self.follower is not None:
            self.follower.on_end(self)

    def take(self, at_ns: int, chunk: bytes) -> None:
        """Keep a read."""
        self.reads.append((at_ns, chunk))
        if self.follower is not None:
            self.follower.on_read(at_ns, chunk)

    def exchange(self, origin_ns: int) -> Exchange:
        """The frozen value, on the replay's own axis."""
        return Exchange(
            request_id=self.request_id,
            due_ns=self.due_ns - origin_ns,
            ending=self.ending or Ending.UNSENT,
            sent_ns=None if self.sent_ns is None else self.sent_ns - origin_ns,
            end_ns=None if self.end_ns is None else self.end_ns - origin_ns,
            error=self.error,
            reads=tuple((at_ns - origin_ns, chunk) for at_ns, chunk in self.reads),
        )


class Address:
    """Where the server listens; a host name is resolved once, before the replay."""

    def __init__(self, socket_path: str | None, host: str | None, port: int | None) -> None:
        if socket_path is not None:
            self.family, self.target = socket.AF_UNIX, socket_path
        else:
            self.family, _, _, _, self.target = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]

    def connect(self) -> tuple[socket.socket, bool]:
        """A non-blocking socket and whether it is connected yet. Raises ``OSError``, or ``TryLater``."""
        try:
            sock = socket.socket(self.family, socket.SOCK_STREAM)
        except OSError as error:
            raise _later_or(error) from error
        sock.settimeout(0)
        if self.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = sock.connect_ex(self.target)
        if code in {0, errno.EINPROGRESS}:
            return sock, code == 0
        sock.close()
        raise _later_or(OSError(code, errno.errorcode.get(code, "connect failed")))


def _later_or(error: OSError) -> OSError | TryLater:
    return TryLater(str(error)) if error.errno in _TRY_LATER else error


class Connection:
    """Sends ``Pending`` requests and collects their reads. ``on_idle`` is called when it can take the next one."""

    __slots__ = (
        "_clock",
        "_connected",
        "_finished",
        "_on_idle",
        "_parser",
        "_poll",
        "_sock",
        "_unsent",
        "_watched",
        "fd",
        "idle_since_ns",
        "pending",
        "served",
    )

    def __init__(
        self, address: Address, poll: select.epoll, clock: Clock, on_idle: "Callable[[Connection], None]"
    ) -> None:
        self._sock, self._connected = address.connect()
        self._poll, self._clock, self._on_idle = poll, clock, on_idle
        self._parser = httptools.HttpResponseParser(self)
        self._finished = False
        self._unsent: memoryview | None = None
        self.pending: Pending | None = None
        self.served = False
        self.idle_since_ns = clock()
        self.fd = self._sock.fileno()
        self._watched = _READ if self._connected else _WRITE
        poll.register(self.fd, self._watched)

    @property
    def is_open(self) -> bool:
        return self.fd >= 0

    def start(self, pending: Pending) -> None:
        """Send now, or as soon as the connection stands."""
        self.pending = pending
        self._unsent = memoryview(pending.payload)
        if self._connected:
            self._send()

    def on_event(self, events: int) -> None:
        """What epoll reported for this socket."""
        if events & select.EPOLLOUT:
            self._writable()
        if self.is_open and events & (_READ | select.EPOLLHUP | select.EPOLLERR):
            self._read()

    def close(self) -> None:
        if self.is_open:
            self._poll.unregister(self.fd)
            self._sock.close()
            self.fd = -1

    def on_message_complete(self) -> None:
        """Called by the parser inside ``feed_data``."""
        self._finished = True

    def _writable(self) -> None:
        if not self._connected:
            code = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self._drop(Ending.REFUSED, errno.errorcode.get(code, "connect failed"))
                return
            self._connected = True
        if self._unsent is not None:
            self._send()
        else:
            self._watch(_READ)

    def _watch(self, events: int) -> None:
        if events != self._watched:
            self._watched = events
            self._poll.modify(self.fd, events)

    def _send(self) -> None:
        pending, unsent = self.pending, self._unsent
        if pending is None or unsent is None:
            return
        at_ns = self._clock()
        try:
            count = self._sock.send(unsent)
        except BlockingIOError:
            count = 0
        except OSError as error:
            # Where not one byte was taken the request never reached the server.
            self._drop(Ending.REFUSED if pending.sent_ns is None else Ending.CLOSED, str(error))
            return
        if count and pending.sent_ns is None:
            pending.sent_ns = at_ns
        whole = count == len(unsent)
        self._unsent = None if whole else unsent[count:]
        self._watch(_READ if whole else _WRITE)

    def _read(self) -> None:
        try:
            chunk = self._sock.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._drop(Ending.CLOSED if self._connected else Ending.REFUSED, str(error))
            return
        at_ns = self._clock()
        pending = self.pending
        if not chunk or pending is None:
            self._drop(Ending.CLOSED, "the server closed the connection")
            return
        pending.take(at_ns, chunk)
        try:
            self._parser.feed_data(chunk)
        except httptools.HttpParserError as error:
            self._drop(Ending.CLOSED, f"not HTTP: {error}")
            return
        if self._finished:
            self._finish(pending, at_ns)

    def _finish(self, pending: Pending, at_ns: int) -> None:
        pending.end(Ending.COMPLETE, at_ns)
        self.pending, self._finished, self.served, self.idle_since_ns = None, False, True, at_ns
        if self._unsent is not None or not self._parser.should_keep_alive():
            self.close()
            return
        self._parser = httptools.HttpResponseParser(self)
        self._on_idle(self)

    def _drop(self, ending: Ending, error: str) -> None:
        if self.pending is not None:
            self.pending.end(ending, self._clock(), error)
            self.pending = None
        self.close()
