"""A server without a model, the referee of the client: OpenAI's stream on any schedule of chunks, and a log of them.

Request field ``null_schedule``: ``[[delay_ms, tokens], …]``, one pair a chunk; without it come ``max_tokens`` chunks
of one token. ``GET /referee`` returns the log, ``DELETE`` empties it. One thread, one epoll, answers put together once.
"""

import argparse
import gc
import os
import select
import socket
import struct
import time
from array import array
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Protocol

import httptools

from worker.replay.clock import monotonic_ns
from worker.replay.null_answers import Answer, AnswerBook, not_found, plain

BACKLOG = 4096
RETRY_NS = 1_000_000
"""A frame that the kernel does not take is offered again so much later, and stamped when it is taken."""

_FRAMES_BEFORE_READS = 16
_READ_BYTES = 65536
_READS_BEFORE_FRAMES = 16
_MS = 1_000_000
_LONGEST_SLEEP_MS = 100
_SO_TIMESTAMPNS = 35  # not among Python's constants; asm-generic/socket.h
_TIMESPEC = struct.Struct("@ll")
_LEFT = select.EPOLLHUP | select.EPOLLERR | select.EPOLLRDHUP


@dataclass(slots=True)
class RefereeEntry:
    """What really happened to one request, on the monotonic clock; it grows with each chunk given to the kernel.

    ``arrived_ns``: over TCP when its last bytes reached the kernel, over a unix socket when they were read.
    """

    request_id: str
    arrived_ns: int
    chunk_tokens: tuple[int, ...] = ()
    departed_ns: "array[int]" = field(default_factory=lambda: array("q"))

    def document(self) -> dict[str, Any]:
        departed = self.departed_ns.tolist()
        tokens = self.chunk_tokens[: len(departed)]
        return {
            "request_id": self.request_id,
            "arrived_ns": self.arrived_ns,
            "departed_ns": departed,
            "chunk_tokens": tokens,
        }


class _Asked(Protocol):
    def __call__(self, connection: "_Connection") -> None: ...


class _Connection:
    """One client's connection: parses its requests, and holds what is still to be written to it."""

    def __init__(self, sock: socket.socket, on_request: _Asked) -> None:
        self.sock = sock
        self.method = self.path = self.request_id = ""
        self.body = b""
        self.arrived_ns = 0
        self.answer: Answer | None = None
        self.entry: RefereeEntry | None = None
        self.next = 0
        self.rest = b""
        self._stamped = sock.family == socket.AF_INET
        self._on_request = on_request
        self._parser = httptools.HttpRequestParser(self)
        self._parts: list[bytes] = []

    def read(self) -> bool:
        """Take what has come; whether the client is still there. Raises ``HttpParserError``."""
        try:
            chunk = self._receive() if self._stamped else self.sock.recv(_READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not self._stamped:
            self.arrived_ns = monotonic_ns()
        if chunk:
            self._parser.feed_data(chunk)
        return bool(chunk)

    def _receive(self) -> bytes:
        chunk, ancillary, _, _ = self.sock.recvmsg(_READ_BYTES, 64)
        # The kernel stamps on the real-time clock; the two clocks are read together to carry the stamp over.
        ago_ns = 0
        for level, kind, stamp in ancillary:
            if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
                seconds, nanoseconds = _TIMESPEC.unpack(stamp)
                ago_ns = time.time_ns() - (seconds * 1_000_000_000 + nanoseconds)
        self.arrived_ns = monotonic_ns() - ago_ns
        return chunk

    def on_url(self, url: bytes) -> None:
        self.path = url.decode("latin-1").partition("?")[0]

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"x-request-id":
            self.request_id = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        self.method = self._parser.get_method().decode("latin-1")
        self.body = b"".join(self._parts)
        self._parts.clear()
        self._on_request(self)


class NullEngine:
    """Serves a listening socket until it is told to stop."""

    def __init__(self, listener: socket.socket, book: AnswerBook) -> None:
        self.log: list[RefereeEntry] = []
        self._listener = listener
        self._book = book
        self._poll = select.epoll()
        self._connections: dict[int, _Connection] = {}
        self._due: list[tuple[int, int, _Connection]] = []
        self._turn = 0

    def serve(self) -> None:
        self._listener.setblocking(False)  # noqa: FBT003  (the socket's own interface)
        self._poll.register(self._listener.fileno(), select.EPOLLIN)
        while True:
            self._write_due()
            for fd, events in self._poll.poll(self._sleep_s(), _READS_BEFORE_FRAMES):
                if fd == self._listener.fileno():
                    self._accept()
                else:
                    self._react(self._connections[fd], events)

    def _write_due(self) -> None:
        """Everything that is due, but so little at once that reads keep their time, too."""
        due = self._due
        for _ in range(_FRAMES_BEFORE_READS):
            if not due or due[0][0] > monotonic_ns():
                return
            self._write(heappop(due)[2])

    def _sleep_s(self) -> float:
        if not self._due:
            return _LONGEST_SLEEP_MS / 1000
        whole_ms = max(0, (self._due[0][0] - monotonic_ns()) // _MS)  # the rest is spent polling: epoll rounds up
        return min(whole_ms, _LONGEST_SLEEP_MS) / 1000

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:  # nothing left to accept, or no descriptor; the client's side says which
                return
            sock.setblocking(False)  # noqa: FBT003
            if sock.family == socket.AF_INET:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections[sock.fileno()] = _Connection(sock, self._answer)
            self._poll.register(sock.fileno(), select.EPOLLIN | select.EPOLLRDHUP)

    def _react(self, connection: _Connection, events: int) -> None:
        try:
            stays = connection.read() and not events & _LEFT
        except httptools.HttpParserError:
            stays = False
        if not stays:
            self._close(connection)

    def _close(self, connection: _Connection) -> None:
        """Its answer stops here: what was not given to the kernel never departed."""
        if connection.sock.fileno() in self._connections:
            del self._connections[connection.sock.fileno()]
            self._poll.unregister(connection.sock.fileno())
            connection.sock.close()
        connection.answer = None

    def _answer(self, connection: _Connection) -> None:
        match (connection.method, connection.path):
            case ("POST", "/v1/completions" | "/v1/chat/completions"):
                answer = self._book.answer(connection.path, connection.body)
                connection.entry = RefereeEntry(connection.request_id, connection.arrived_ns, answer.chunk_tokens)
                self.log.append(connection.entry)
            case ("GET", "/referee"):
                connection.entry, answer = None, plain(200, [entry.document() for entry in self.log])
            case ("DELETE", "/referee"):
                self.log.clear()
                connection.entry, answer = None, plain(200, [])
            case ("GET", path):
                connection.entry, answer = None, self._book.page(path)
            case _:
                connection.entry, answer = None, not_found()
        connection.request_id = ""
        connection.answer, connection.next = answer, 0
        self._write(connection)

    def _write(self, connection: _Connection) -> None:
        """Give the next frame to the kernel, and come back for the one after it when that is due."""
        answer = connection.answer
        if answer is None:
            return
        frame = connection.rest or answer.frames[connection.next]
        at_ns = monotonic_ns()
        try:
            count = connection.sock.send(frame)
        except BlockingIOError:
            count = 0
        except OSError:
            self._close(connection)
            return
        if count < len(frame):
            connection.rest = frame[count:]
            self._come_back(connection, at_ns + RETRY_NS)
            return
        connection.rest = b""
        if connection.entry is not None and answer.is_chunk[connection.next]:
            connection.entry.departed_ns.append(at_ns)
        connection.next += 1
        if connection.next < len(answer.frames):
            self._come_back(connection, connection.arrived_ns + answer.due_ns[connection.next])
        else:
            connection.answer = None

    def _come_back(self, connection: _Connection, at_ns: int) -> None:
        self._turn += 1  # breaks ties, in the order of asking
        heappush(self._due, (at_ns, self._turn, connection))


def _listener(arguments: argparse.Namespace) -> socket.socket:
    """A listening socket; what it accepts inherits the kernel's stamps. Raises ``OSError``."""
    if arguments.uds:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(arguments.uds)
    else:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        listener.bind((arguments.host, arguments.port))
    listener.listen(BACKLOG)
    return listener


def main() -> None:
    parser = argparse.ArgumentParser(prog="null-engine", description=__doc__)
    parser.add_argument("--uds", help="unix socket to listen on")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 chooses a free port")
    parser.add_argument("--cores", default="", help="run on these only, such as 0,1")
    parser.add_argument("--ttft-ms", type=float, default=0.0, help="to the first chunk, unless null_schedule says")
    parser.add_argument("--gap-ms", type=float, default=0.0, help="between chunks, unless null_schedule says")
    arguments = parser.parse_args()
    if arguments.cores:
        os.sched_setaffinity(0, {int(core) for core in arguments.cores.split(",")})
    listener = _listener(arguments)
    address = listener.getsockname()
    print("listening", address if isinstance(address, str) else address[1], flush=True)  # noqa: T201  (the starter waits for it)
    gc.freeze()
    gc.disable()
    NullEngine(listener, AnswerBook(arguments.ttft_ms, arguments.gap_ms)).serve()


if __name__ == "__main__":
    main()
