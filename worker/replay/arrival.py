"""Bytes and when they arrived: over TCP by the kernel's stamp, so that a busy client cannot make a latency longer.

A unix socket has no such stamps; there it is the moment at which the bytes have been read.
"""

import socket
import struct
import time
from collections.abc import Callable

from worker.replay.clock import Clock

READ_BYTES = 16384

_SO_TIMESTAMPNS = 35  # not among Python's constants; asm-generic/socket.h
_TIMESPEC = struct.Struct("@ll")
_NS_PER_S = 1_000_000_000

Receive = Callable[[], tuple[bytes, int]]
"""Bytes and their arrival on the clock; raises ``OSError``, ``BlockingIOError`` where nothing has come."""


def receiver(sock: socket.socket, clock: Clock) -> Receive:
    """How this socket is read. A read that took several packets has the arrival of the last of them."""
    if sock.family == socket.AF_UNIX:
        receive = sock.recv
        return lambda: (receive(READ_BYTES), clock())
    sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    return _Stamped(sock, clock).receive


class _Stamped:
    """The kernel stamps on the real-time clock; both clocks are read together to carry the stamp over."""

    __slots__ = ("_clock", "_last_ns", "_receive")

    def __init__(self, sock: socket.socket, clock: Clock) -> None:
        self._receive, self._clock = sock.recvmsg, clock
        self._last_ns = clock()

    def receive(self) -> tuple[bytes, int]:
        chunk, ancillary, _, _ = self._receive(READ_BYTES, 64)
        real_ns = time.time_ns()  # first: whatever comes between the two makes a stamp later, never too early
        at_ns = now_ns = self._clock()
        if ancillary:
            seconds, nanoseconds = _TIMESPEC.unpack(ancillary[0][2])
            at_ns += seconds * _NS_PER_S + nanoseconds - real_ns
            # Whoever sets the real-time clock meanwhile moves no arrival before the last one, nor behind its reading.
            at_ns = min(max(at_ns, self._last_ns), now_ns)
        self._last_ns = at_ns
        return chunk, at_ns
