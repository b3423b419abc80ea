"""The loop: every request is sent when it is due, whatever became of those that it does not wait for.

One thread, one epoll. Between due times the loop sleeps until something can be read; a timer wakes it shortly
before the next due time, and it polls without sleeping for that moment, so that it can be met exactly.
"""

import select
import time
from collections import deque
from collections.abc import Callable

from worker.replay.agenda import Agenda
from worker.replay.alarm import Alarm
from worker.replay.client import Address, Connection, Pending, TryLater
from worker.replay.clock import Clock, monotonic_ns
from worker.replay.exchange import Ending
from worker.replay.plan import ReplayPlan
from worker.replay.reads import ReadLog

POOL_SIZE = 512
SPARES = 8
"""Below this many idle connections one more is opened, in the gaps between due times."""

IDLE_LIMIT_NS = 3_000_000_000
"""A connection that served and then rested this long is replaced: the engine closes its end after five seconds."""

EVENTS_A_TURN = 32
"""Sending comes first: after a stall hundreds of sockets can be read, which takes milliseconds."""

NAP_NS = 100_000
"""Between reads of stamped arrivals, so that one turn of the loop takes several; no stamp is later for it."""

_MS = 1_000_000
_NAP_S = NAP_NS / 1e9
_LONGEST_SLEEP_S = 0.05
_RETRY_NS = 50 * _MS
_RETRY_WAITING_NS = _MS
_QUIET_NS = _MS // 2
"""Opening a connection takes a fraction of it."""


class ReplayLoop:
    """One replay of a plan. ``run`` returns when every request has ended or been given up."""

    def __init__(self, plan: ReplayPlan, log: ReadLog, clock: Clock = monotonic_ns) -> None:
        self._plan = plan
        self._log = log
        self._clock = clock
        self._address = Address(plan.socket_path, plan.host, plan.port)
        self._poll = select.epoll()
        self._alarm = Alarm()
        self._poll.register(self._alarm.fd, select.EPOLLIN | select.EPOLLET)
        self._connections: dict[int, Connection] = {}
        self._on_readable: dict[int, Callable[[], None]] = {}
        self._idle: list[Connection] = []
        self._waiting: deque[Pending] = deque()
        self._replenish_at_ns = 0
        self._canceled = False
        self._may_nap = False
        self.agenda = Agenda(plan)
        self.origin_ns = 0
        """Offset zero of the replay on the monotonic clock; set by ``run``."""
        self.spun_ns = 0
        """Time spent polling for the exact moment, without anything to do."""

    @property
    def stamped_by(self) -> str:
        """Who says when something arrived: the ``kernel``, or the ``client`` itself."""
        return "kernel" if self._address.is_stamped else "client"

    def cancel(self) -> None:
        """Stop at the next turn of the loop; safe in a signal's reaction."""
        self._canceled = True

    def run(self) -> None:
        """Replay: what became of each request is in ``agenda.everything``, its reads are in the log."""
        for _ in range(min(POOL_SIZE, len(self._plan.requests))):
            self._open_spare()
        self.origin_ns = self._clock() + self._plan.lead_in_ns
        self.agenda.begin(self.origin_ns)
        self._replay()
        self._close()

    def on_idle(self, connection: Connection) -> None:
        """The connection can take a request."""
        self._idle.append(connection)

    def on_closed(self, connection: Connection, fd: int) -> None:
        """The connection is gone."""
        del self._connections[fd], self._on_readable[fd]
        if connection in self._idle:
            self._idle.remove(connection)
            self._replenish_at_ns = self._clock() + _RETRY_NS

    def _replay(self) -> None:
        clock, agenda, drain_timeout_ns = self._clock, self.agenda, self._plan.drain_timeout_ns
        while not self._canceled:
            now_ns = clock()
            while (pending := agenda.due(now_ns)) is not None:
                self._send(pending, now_ns)
                now_ns = clock()
            next_ns, give_up_ns = agenda.next_due_ns, agenda.last_due_ns + drain_timeout_ns
            if next_ns is None and (now_ns >= give_up_ns or not (self._waiting or self._busy())):
                return
            self._read(give_up_ns if next_ns is None else next_ns, now_ns)
            self._tend(give_up_ns if next_ns is None else next_ns)

    def _read(self, next_ns: int, now_ns: int) -> None:
        """What has come, up to a limit; if nothing has, wait for it, but not past ``next_ns``."""
        left_ns = next_ns - now_ns
        if self._may_nap and left_ns > self._plan.spin_ns + 2 * NAP_NS:
            time.sleep(_NAP_S)
        events = self._poll.poll(0, EVENTS_A_TURN)
        self._may_nap = self._address.is_stamped and 0 < len(events) < EVENTS_A_TURN
        if not events:
            if left_ns <= self._plan.spin_ns:
                self.spun_ns += self._clock() - now_ns
                return
            self._alarm.set(self._wake_ns(next_ns, now_ns))
            events = self._poll.poll(_LONGEST_SLEEP_S, EVENTS_A_TURN)
        self._react(events)

    def _react(self, events: list[tuple[int, int]]) -> None:
        on_readable = self._on_readable
        for fd, what in events:
            if what == select.EPOLLIN and fd in on_readable:
                on_readable[fd]()
            elif fd in on_readable:
                self._connections[fd].on_event(what)

    def _wake_ns(self, next_ns: int, now_ns: int) -> int:
        wake_ns = next_ns - self._plan.spin_ns
        if self.agenda.next_limit_ns is not None:
            wake_ns = min(wake_ns, self.agenda.next_limit_ns)
        return min(wake_ns, now_ns + _RETRY_WAITING_NS) if self._waiting else wake_ns

    def _tend(self, next_ns: int) -> None:
        """Everything that is neither sending nor reading: expire, retry, open spares."""
        if self.agenda.next_limit_ns is not None:
            self._expire(self._clock())
        if self._waiting:
            self._retry_waiting()
        if len(self._idle) < SPARES:
            now_ns = self._clock()
            if next_ns - now_ns > _QUIET_NS and now_ns >= self._replenish_at_ns:
                self._open_spare()

    def _busy(self) -> bool:
        return any(connection.pending is not None for connection in self._connections.values())

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
        connection.start(pending)

    def _rested(self, now_ns: int) -> Connection | None:
        """The most recently used idle connection that the server cannot be about to close."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.served or now_ns - connection.idle_since_ns < IDLE_LIMIT_NS:
                return connection
            connection.close()
        return None

    def _open(self) -> Connection:
        connection = Connection(self._address, self._poll, self._clock, self._log, self)
        self._connections[connection.fd] = connection
        self._on_readable[connection.fd] = connection.on_readable
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
        for pending, ending in self.agenda.expired(now_ns):
            self._give_up(pending, ending, now_ns)

    def _give_up(self, pending: Pending, ending: Ending, now_ns: int) -> None:
        pending.end(ending if pending.sent_ns is not None else Ending.UNSENT, now_ns, pending.error)
        for connection in list(self._connections.values()):
            if connection.pending is pending:
                connection.close()

    def _close(self) -> None:
        self.agenda.close()
        ending = Ending.CANCELED if self._canceled else Ending.DEADLINE
        now_ns = self._clock()
        for pending in self.agenda.everything:
            if pending.ending is None:
                self._give_up(pending, ending, now_ns)
        for connection in list(self._connections.values()):
            connection.close()
        self._alarm.close()
        self._poll.close()
