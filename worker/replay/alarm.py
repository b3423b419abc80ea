"""Wakes an epoll at a moment of the monotonic clock: its own timeouts are whole milliseconds, rounded up."""

import ctypes
import os
import struct
import time

_NS_PER_S = 1_000_000_000
_TFD_NONBLOCK = os.O_NONBLOCK
_TFD_CLOEXEC = os.O_CLOEXEC
_TFD_TIMER_ABSTIME = 1
_ITIMERSPEC = struct.Struct("@llll")


class Alarm:
    """A timerfd; register ``fd`` edge-triggered. Python has none of its own before 3.13."""

    def __init__(self) -> None:
        """Raises ``OSError``."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self._checked(self._libc.timerfd_create(time.CLOCK_MONOTONIC, _TFD_NONBLOCK | _TFD_CLOEXEC))
        self._set_for_ns: int | None = None

    def set(self, at_ns: int) -> None:
        """Ring at ``at_ns``, at once where that is past, and at no other time."""
        if at_ns == self._set_for_ns:
            return
        self._set_for_ns = at_ns
        seconds, nanoseconds = divmod(max(1, at_ns), _NS_PER_S)
        when = _ITIMERSPEC.pack(0, 0, seconds, nanoseconds)
        self._checked(self._libc.timerfd_settime(self.fd, _TFD_TIMER_ABSTIME, when, None))

    def close(self) -> None:
        os.close(self.fd)

    @staticmethod
    def _checked(result: int) -> int:
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return result
