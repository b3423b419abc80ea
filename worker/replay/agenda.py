"""What is due when: at fixed offsets, when a client of a closed loop is free, or some time after the turn before.

Requests that wait for others are scheduled the moment those end, from inside the read that ended them.
"""

import heapq
import json
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from worker.replay.client import Pending
from worker.replay.exchange import Ending
from worker.replay.plan import Conversation, ReplayPlan, ReplayRequest, http_request

PLANNED_CANCEL = "canceled by the client, as the trace plans"
TURN_BEFORE_FAILED = "the turn before it did not succeed"
_END_OF_BODY = b"]}"


class Reader(Protocol):
    """Reads an answer as it comes in."""

    def feed(self, at_ns: int, chunk: bytes) -> None: ...
    def said(self, ending: Ending) -> str | None: ...


class Agenda:
    """The plan's requests as they become due. ``begin`` fixes the origin; all times are absolute from then on."""

    def __init__(self, plan: ReplayPlan) -> None:
        self._plan = plan
        self.everything = [self._pending(index, request) for index, request in enumerate(plan.requests)]
        """In the plan's order."""
        self.last_due_ns = 0
        self._due: list[tuple[int, int]] = []
        self._limits: list[tuple[int, int, Ending]] = []
        index_of = {request.request_id: index for index, request in enumerate(plan.requests)}
        self._next_turn = {index_of[c.follows]: i for i, c in self._conversations() if c.follows is not None}
        self._queue: deque[int] = deque()
        self._closed = False
        self._new_reader = _reader_of_answers() if self._next_turn else _no_reader
        self._said_so_far = {i: plan.requests[i].body[c.start : -len(_END_OF_BODY)] for i, c in self._conversations()}
        """Index → the messages of a turn as they were sent."""

    def begin(self, origin_ns: int) -> None:
        """Schedule what does not wait for anything."""
        for request, pending in zip(self._plan.requests, self.everything, strict=True):
            pending.due_ns = origin_ns + request.due_ns
        waiting = set(self._next_turn.values())
        first = [index for index in range(len(self.everything)) if index not in waiting]
        if self._plan.clients is None:
            for index in first:
                self._schedule(index, self.everything[index].due_ns)
            return
        self._queue.extend(first)
        for _ in range(min(self._plan.clients, len(first))):
            self._free_client(origin_ns)

    @property
    def next_due_ns(self) -> int | None:
        """When the next request is due, as far as is known."""
        return self._due[0][0] if self._due else None

    def due(self, now_ns: int) -> Pending | None:
        """The next request, if it is due."""
        if not self._due or self._due[0][0] > now_ns:
            return None
        return self.everything[heapq.heappop(self._due)[1]]

    @property
    def next_limit_ns(self) -> int | None:
        """The next deadline or planned cancel."""
        return self._limits[0][0] if self._limits else None

    def expired(self, now_ns: int) -> Iterator[tuple[Pending, Ending]]:
        """Requests whose deadline or planned cancel has come before they ended."""
        while self._limits and self._limits[0][0] <= now_ns:
            _, index, ending = heapq.heappop(self._limits)
            pending = self.everything[index]
            if pending.ending is None:
                if ending is Ending.CANCELED:
                    pending.error = PLANNED_CANCEL
                yield pending, ending

    def close(self) -> None:
        """Nothing that ends from now on makes anything else due."""
        self._closed = True

    def ended(self, index: int, reader: Reader | None) -> None:
        """Schedule what waited for this request."""
        pending, following = self.everything[index], self._next_turn.get(index)
        if self._closed or pending.ending is None or pending.end_ns is None:
            return
        if following is not None and reader is not None:
            said = reader.said(pending.ending)
            if said is not None:
                self._follow(index, following, said, pending.end_ns)
                return
            self._strand(following)
        if self._plan.clients is not None:
            self._free_client(pending.end_ns)

    def _pending(self, index: int, request: ReplayRequest) -> Pending:
        return Pending(index, request.request_id, self._payload(request, request.body), request.due_ns)

    def _payload(self, request: ReplayRequest, body: bytes) -> bytes:
        return http_request(request.path or self._plan.path, body, request.request_id, self._plan.host_header)

    def _conversations(self) -> Iterator[tuple[int, Conversation]]:
        return ((i, r.conversation) for i, r in enumerate(self._plan.requests) if r.conversation is not None)

    def _schedule(self, index: int, due_ns: int) -> None:
        request, pending = self._plan.requests[index], self.everything[index]
        pending.due_ns = due_ns
        self.last_due_ns = max(self.last_due_ns, due_ns)
        heapq.heappush(self._due, (due_ns, index))
        for after_ns, ending in ((request.deadline_ns, Ending.DEADLINE), (request.cancel_at_ns, Ending.CANCELED)):
            if after_ns is not None:
                heapq.heappush(self._limits, (due_ns + after_ns, index, ending))
        if index in self._next_turn or self._plan.clients is not None:
            pending.follower = _Watch(self, index, self._new_reader() if index in self._next_turn else None)

    def _free_client(self, now_ns: int) -> None:
        if self._queue:
            self._schedule(self._queue.popleft(), now_ns)

    def _follow(self, index: int, following: int, text: str, ended_ns: int) -> None:
        """Put what was really said into the next turn and schedule it."""
        request = self._plan.requests[following]
        turn = request.conversation
        if turn is None:
            return
        said = json.dumps({"role": "assistant", "content": text}, separators=(",", ":")).encode()
        messages = self._said_so_far.pop(index) + b"," + said + request.body[turn.additions : -len(_END_OF_BODY)]
        self._said_so_far[following] = messages
        self.everything[following].payload = self._payload(
            request, request.body[: turn.start] + messages + _END_OF_BODY
        )
        self._schedule(following, ended_ns + turn.think_ns)

    def _strand(self, following: int | None) -> None:
        while following is not None:
            self.everything[following].error = TURN_BEFORE_FAILED
            following = self._next_turn.get(following)


def _reader_of_answers() -> Callable[[], Reader]:
    from worker.replay.response import AnswerReader  # noqa: PLC0415  (brings pydantic; only conversations pay for it)

    return AnswerReader


def _no_reader() -> Reader:
    raise RuntimeError("nothing waits for an answer in this plan")


class _Watch:
    """Reads an answer as it comes in, so that nothing is left to parse when the next turn falls due."""

    __slots__ = ("_agenda", "_index", "_reader")

    def __init__(self, agenda: Agenda, index: int, reader: Reader | None) -> None:
        self._agenda, self._index, self._reader = agenda, index, reader

    def on_read(self, at_ns: int, chunk: bytes) -> None:
        if self._reader is not None:
            self._reader.feed(at_ns, chunk)

    def on_end(self, pending: Pending) -> None:
        del pending
        self._agenda.ended(self._index, self._reader)
