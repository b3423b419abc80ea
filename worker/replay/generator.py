"""The loop: every request is sent when it is due, whatever became of those that it does not wait for.

One thread, one epoll. The loop sleeps in whole milliseconds until shortly before the next due
time and then polls without sleeping, so reads keep their stamps while it waits for the exact moment.
"""

import select
from collections import deque

from worker.replay.agenda import Agenda
from worker.replay.client import Address, Connection, Pending, TryLater
from worker.replay.clock import Clock, monotonic_ns
from worker.replay.exchange import Ending, Exchange
from worker.replay.plan import ReplayPlan

POOL_SIZE = 32
SPARES = 8
"""Below this many idle connections one more is opened, in the gaps between due times."""

IDLE_LIMIT_NS = 3_000_000_000
"""A connection that served and then rested this long is replaced: the engine closes its end after five seconds."""

_MS = 1_000_000
_WAKE_EARLY_NS = 200_000
"""Left to polling in any case; together with rounding down to milliseconds, at most 1.2 ms."""

_LONGEST_SLEEP_MS = 50
_RETRY_NS = 50 * _MS
_QUIET_NS = 2 * _MS


class ReplayLoop:
    """One replay of a plan. ``run`` returns when every request has ended or been given up."""

    def __init__(self, plan: ReplayPlan, clock: Clock = monotonic_ns) -> None:
        self._plan = plan
        self._clock = clock
        self._address = Address(plan.socket_path, plan.host, plan.port)
        self._poll = select.epoll()
        self._connections: dict[int, Connection] = {}
        self._idle: list[Connection] = []
        self._waiting: deque[Pending] = deque()
        self._agenda = Agenda(plan)
        self._replenish_at_ns = 0
        self._canceled = False
        self.origin_ns = 0
        """Offset zero of the replay on the monotonic clock; set by ``run``."""

    def cancel(self) -> None:
        """Stop at the next turn of the loop; safe in a signal's reaction."""
        self._canceled = True

    def run(self) -> tuple[Exchange, ...]:
        """Replay; exchanges come back in the plan's order."""
        for _ in range(min(POOL_SIZE, len(self._plan.requests))):
            self._open_spare()
        self.origin_ns = self._clock() + self._plan.lead_in_ns
        self._agenda.begin(self.origin_ns)
        self._replay()
        self._close()
        return tuple(pending.exchange(self.origin_ns) for pending in self._agenda.everything)

    def _replay(self) -> None:
        clock, agenda, drain_timeout_ns = self._clock, self._agenda, self._plan.drain_timeout_ns
        while not self._canceled:
            now_ns = clock()
            while (pending := agenda.due(now_ns)) is not None:
                self._send(pending, now_ns)
                now_ns = clock()
            next_ns, give_up_ns = agenda.next_due_ns, agenda.last_due_ns + drain_timeout_ns
            if next_ns is None and (now_ns >= give_up_ns or not (self._waiting or self._busy())):
                return
            self._tend(give_up_ns if next_ns is None else next_ns, now_ns)

    def _tend(self, next_ns: int, now_ns: int) -> None:
        """Everything that is not sending on time: read, expire, retry, open spares, sleep."""
        for fd, events in self._poll.poll(self._sleep_s(next_ns, now_ns)):
            self._react(fd, events)
        if self._agenda.next_limit_ns is not None:
            self._expire(self._clock())
        if self._waiting:
            self._retry_waiting()
        if len(self._idle) < SPARES and next_ns - now_ns > _QUIET_NS and now_ns >= self._replenish_at_ns:
            self._open_spare()

    def _sleep_s(self, next_ns: int, now_ns: int) -> float:
        whole_ms = max(0, (next_ns - now_ns - _WAKE_EARLY_NS) // _MS)
        limit_ns = self._agenda.next_limit_ns
        if limit_ns is not None:
            whole_ms = min(whole_ms, max(0, (limit_ns - now_ns) // _MS))
        longest_ms = 1 if self._waiting else _LONGEST_SLEEP_MS
        return min(whole_ms, longest_ms) / 1000

    def _busy(self) -> bool:
        return any(connection.pending is not None for connection in self._connections.values())

    def _react(self, fd: int, events: int) -> None:
        connection = self._connections[fd]
        connection.on_event(events)
        if not connection.is_open:
            del self._connections[fd]
            if connection in self._idle:
                self._idle.remove(connection)
                self._replenish_at_ns = self._clock() + _RETRY_NS

    def _send(self, pending: Pending, now_ns: int) -> None:
        try:
            connection = self._rested(now_ns) or self._open()
        except TryLater as error:
            pending.error = str(error)
            self._waiting.append(pending)
            return
        except OSError as error:
            pending.end(Ending.REFUSED, self._clock(), str(error))
            return
        self._start(connection, pending)

    def _start(self, connection: Connection, pending: Pending) -> None:
        fd = connection.fd
        connection.start(pending)
        if not connection.is_open:
            del self._connections[fd]

    def _rested(self, now_ns: int) -> Connection | None:
        """The most recently used idle connection that the server cannot be about to close."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.served or now_ns - connection.idle_since_ns < IDLE_LIMIT_NS:
                return connection
            del self._connections[connection.fd]
            connection.close()
        return None

    def _open(self) -> Connection:
        connection = Connection(self._address, self._poll, self._clock, self._idle.append)
        self._connections[connection.fd] = connection
        return connection

    def _open_spare(self) -> None:
        try:
            self._idle.append(self._open())
        except (TryLater, OSError):
            # Only a spare failed; a request that finds none says so itself.
            self._replenish_at_ns = self._clock() + _RETRY_NS

    def _retry_waiting(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        for pending in waiting:
            if pending.ending is None:
                pending.error = None
                self._send(pending, self._clock())

    def _expire(self, now_ns: int) -> None:
        for pending, ending in self._agenda.expired(now_ns):
            self._give_up(pending, ending, now_ns)

    def _give_up(self, pending: Pending, ending: Ending, now_ns: int) -> None:
        pending.end(ending if pending.sent_ns is not None else Ending.UNSENT, now_ns, pending.error)
        for fd, connection in list(self._connections.items()):
            if connection.pending is pending:
                connection.close()
                del self._connections[fd]

    def _close(self) -> None:
        self._agenda.close()
        ending = Ending.CANCELED if self._canceled else Ending.DEADLINE
        now_ns = self._clock()
        for pending in self._agenda.everything:
            if pending.ending is None:
                self._give_up(pending, ending, now_ns)
        for connection in self._connections.values():
            connection.close()
        self._poll.close()
