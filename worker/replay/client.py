"""One keep-alive connection that carries one request at a time.

A read costs one stamp, a few appends and the C parser's search for the end of the message;
nothing else is parsed while the replay runs.
"""

import errno
import select
import socket
from typing import Protocol

import httptools

from worker.replay.arrival import receiver
from worker.replay.clock import Clock
from worker.replay.exchange import Ending, Exchange
from worker.replay.reads import ReadLog

_FINAL_STATUS = 200
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

    __slots__ = ("due_ns", "end_ns", "ending", "error", "follower", "index", "payload", "request_id", "sent_ns")

    def __init__(self, index: int, request_id: str, payload: bytes, due_ns: int) -> None:
        self.index = index
        self.request_id = request_id
        self.payload = payload
        self.due_ns = due_ns
        self.follower: Follower | None = None
        self.sent_ns: int | None = None
        self.end_ns: int | None = None
        self.ending: Ending | None = None
        self.error: str | None = None

    def end(self, ending: Ending, at_ns: int, error: str | None = None) -> None:
        self.ending, self.end_ns, self.error = ending, at_ns, error
        if self.follower is not None:
            self.follower.on_end(self)

    def exchange(self, origin_ns: int) -> Exchange:
        """The frozen value, on the replay's own axis; its reads are in the log."""
        return Exchange(
            request_id=self.request_id,
            due_ns=self.due_ns - origin_ns,
            ending=self.ending or Ending.UNSENT,
            sent_ns=None if self.sent_ns is None else self.sent_ns - origin_ns,
            end_ns=None if self.end_ns is None else self.end_ns - origin_ns,
            error=self.error,
        )


class Address:
    """Where the server listens; a host name is resolved once, before the replay."""

    def __init__(self, socket_path: str | None, host: str | None, port: int | None) -> None:
        if socket_path is not None:
            self.family, self.target = socket.AF_UNIX, socket_path
        else:
            self.family, _, _, _, self.target = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]

    @property
    def is_stamped(self) -> bool:
        """Whether the kernel says when something arrived."""
        return self.family != socket.AF_UNIX

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
            return sock, code == 0 or _stands(sock)
        sock.close()
        raise _later_or(OSError(code, errno.errorcode.get(code, "connect failed")))


def _stands(sock: socket.socket) -> bool:
    """On loopback the handshake is over when connect returns, though it says that it is in progress."""
    try:
        sock.getpeername()
    except OSError:
        return False
    return True


def _later_or(error: OSError) -> OSError | TryLater:
    return TryLater(str(error)) if error.errno in _TRY_LATER else error


class Pool(Protocol):
    """Whoever owns connections: told when one can take the next request, and when one is gone."""

    def on_idle(self, connection: "Connection") -> None: ...
    def on_closed(self, connection: "Connection", fd: int) -> None: ...


class Connection:
    """Sends ``Pending`` requests and keeps their reads."""

    __slots__ = (
        "_clock",
        "_connected",
        "_finished",
        "_keep",
        "_parser",
        "_poll",
        "_pool",
        "_receive",
        "_sock",
        "_unsent",
        "_watched",
        "fd",
        "idle_since_ns",
        "pending",
        "served",
    )

    def __init__(self, address: Address, poll: select.epoll, clock: Clock, log: ReadLog, pool: Pool) -> None:
        self._sock, self._connected = address.connect()
        self._receive, self._keep = receiver(self._sock, clock), log.keep
        self._poll, self._clock, self._pool = poll, clock, pool
        self._parser = httptools.HttpResponseParser(self)
        self._finished = False
        self._unsent = b""
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
        self._unsent = pending.payload
        if self._connected:
            self._send()

    def on_readable(self) -> None:
        """Take what has come."""
        try:
            chunk, at_ns = self._receive()
        except BlockingIOError:
            return
        except OSError as error:
            self._drop(Ending.CLOSED if self._connected else Ending.REFUSED, str(error))
            return
        pending = self.pending
        if not chunk or pending is None:
            self._drop(Ending.CLOSED, "the server closed the connection")
            return
        self._keep(pending.index, at_ns, chunk)
        if pending.follower is not None:
            pending.follower.on_read(at_ns, chunk)
        try:
            self._parser.feed_data(chunk)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._drop(Ending.CLOSED, f"not HTTP: {error}")
            return
        if self._finished:
            self._finish(pending, at_ns)

    def on_event(self, events: int) -> None:
        """What epoll reported, if it is not only that there is something to read."""
        if events & select.EPOLLOUT:
            self._writable()
        if self.is_open and events & (_READ | select.EPOLLHUP | select.EPOLLERR):
            self.on_readable()

    def close(self) -> None:
        if self.is_open:
            fd, self.fd = self.fd, -1
            self._poll.unregister(fd)
            self._sock.close()
            self._pool.on_closed(self, fd)

    def on_message_complete(self) -> None:
        """Called by the parser inside ``feed_data``; an announcement such as 100 Continue is not yet the answer."""
        self._finished = self._parser.get_status_code() >= _FINAL_STATUS

    def _writable(self) -> None:
        if not self._connected:
            code = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self._drop(Ending.REFUSED, errno.errorcode.get(code, "connect failed"))
                return
            self._connected = True
        if self._unsent:
            self._send()
        else:
            self._watch(_READ)

    def _watch(self, events: int) -> None:
        if events != self._watched:
            self._watched = events
            self._poll.modify(self.fd, events)

    def _send(self) -> None:
        pending, unsent = self.pending, self._unsent
        if pending is None:
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
        self._unsent = unsent[count:]
        self._watch(_WRITE if self._unsent else _READ)

    def _finish(self, pending: Pending, at_ns: int) -> None:
        pending.end(Ending.COMPLETE, at_ns)
        self.pending, self._finished, self.served, self.idle_since_ns = None, False, True, at_ns
        if self._unsent or not self._parser.should_keep_alive():
            self.close()
            return
        self._parser = httptools.HttpResponseParser(self)
        self._pool.on_idle(self)

    def _drop(self, ending: Ending, error: str) -> None:
        if self.pending is not None:
            self.pending.end(ending, self._clock(), error)
            self.pending = None
        self.close()
