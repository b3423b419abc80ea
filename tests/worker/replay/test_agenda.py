"""What falls due when one request waits for another; no socket, no clock."""

import json
from typing import Any

import pytest

from worker.replay.agenda import PLANNED_CANCEL, TURN_BEFORE_FAILED, Agenda
from worker.replay.client import Pending
from worker.replay.exchange import Ending
from worker.replay.plan import Conversation, ReplayPlan, ReplayRequest, decode_plan, encode_plan
from worker.replay.response import observe

STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
HEAD = b'{"model":"m","messages":['


def plan_of(*requests: ReplayRequest, clients: int | None = None) -> ReplayPlan:
    return ReplayPlan("/s", None, None, "/v1/completions", requests, 1000, (), 0, clients)


def plain(name: str, due_ns: int = 0, **facts: Any) -> ReplayRequest:
    return ReplayRequest(name, due_ns, b"{}", **facts)


def turn(name: str, after: str | None, *said: str, due_ns: int = 0, think_ns: int = 50) -> ReplayRequest:
    """A turn whose messages are ``said``, user and assistant by turns."""
    roles = ("user", "assistant")
    messages = [json.dumps({"role": roles[i % 2], "content": text}).encode() for i, text in enumerate(said)]
    body = HEAD + b",".join(messages) + b"]}"
    additions = len(HEAD + b",".join(messages[:-1])) if after else 0
    return ReplayRequest(name, due_ns, body, conversation=Conversation(len(HEAD), after, additions, think_ns))


def answered(pending: Pending, at_ns: int, text: str = "yes", finish_reason: str | None = "stop") -> None:
    """A whole streamed answer."""
    events = [{"choices": [{"delta": {"content": text}, "token_ids": [1], "finish_reason": finish_reason}]}]
    body = b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in events) + b"data: [DONE]\n\n"
    pending.sent_ns = pending.due_ns
    if pending.follower is not None:
        pending.follower.on_read(at_ns, STREAM_HEAD + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
    pending.end(Ending.COMPLETE, at_ns)


def next_due(agenda: Agenda) -> Pending:
    """The next request, as soon as it is due."""
    assert agenda.next_due_ns is not None
    pending = agenda.due(agenda.next_due_ns)
    assert pending is not None
    return pending


def messages_of(pending: Pending) -> list[str]:
    return [message["content"] for message in json.loads(pending.payload.partition(b"\r\n\r\n")[2])["messages"]]


def test_fixed_offsets_fall_due_in_order_and_never_before() -> None:
    agenda = Agenda(plan_of(plain("b", 30), plain("a", 10), plain("c", 30)))
    agenda.begin(1000)
    assert agenda.due(1009) is None
    assert [next_due(agenda).request_id for _ in range(3)] == ["a", "b", "c"]
    assert (agenda.next_due_ns, agenda.last_due_ns) == (None, 1030)


def test_a_turn_falls_due_when_the_one_before_has_ended_and_contains_what_was_said() -> None:
    agenda = Agenda(plan_of(turn("1", None, "hi"), turn("2", "1", "hi", "recorded", "more")))
    agenda.begin(0)
    first = next_due(agenda)
    assert agenda.next_due_ns is None
    answered(first, 700, 'said "so" é')
    assert agenda.next_due_ns == 750
    second = next_due(agenda)
    assert second.due_ns == 750
    assert messages_of(second) == ["hi", 'said "so" é', "more"]
    length = int(second.payload.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
    assert length == len(second.payload.partition(b"\r\n\r\n")[2])


def test_a_long_session_keeps_everything_that_was_really_said() -> None:
    said = ["u0", "recorded 0", "u1", "recorded 1", "u2", "recorded 2", "u3"]
    turns = [turn(str(i), str(i - 1) if i else None, *said[: 2 * i + 1]) for i in range(4)]
    agenda = Agenda(decode_plan(encode_plan(plan_of(*turns))))
    agenda.begin(0)
    for index in range(3):
        answered(next_due(agenda), 100 * (index + 1), f"own {index}")
    assert messages_of(next_due(agenda)) == ["u0", "own 0", "u1", "own 1", "u2", "own 2", "u3"]


@pytest.mark.parametrize("ending", [Ending.CLOSED, Ending.DEADLINE, Ending.REFUSED])
def test_after_a_failed_turn_the_rest_of_its_session_is_not_sent(ending: Ending) -> None:
    agenda = Agenda(
        plan_of(turn("1", None, "a"), turn("2", "1", "a", "b", "c"), turn("3", "2", "a", "b", "c", "d", "e"))
    )
    agenda.begin(0)
    next_due(agenda).end(ending, 100)
    assert agenda.next_due_ns is None
    for pending in agenda.everything[1:]:
        pending.end(Ending.UNSENT, 200, pending.error)
        seen = observe(pending.exchange(0))
        assert (seen.outcome, seen.error) == ("not_sent", TURN_BEFORE_FAILED)


def test_an_answer_that_was_cut_off_is_no_answer() -> None:
    agenda = Agenda(plan_of(turn("1", None, "a"), turn("2", "1", "a", "b", "c")))
    agenda.begin(0)
    answered(next_due(agenda), 100, finish_reason=None)
    assert agenda.next_due_ns is None


def test_a_closed_loop_has_as_many_in_flight_as_clients() -> None:
    agenda = Agenda(plan_of(*(plain(str(i)) for i in range(5)), clients=2))
    agenda.begin(10)
    first, second = next_due(agenda), next_due(agenda)
    assert (first.request_id, second.request_id, agenda.next_due_ns) == ("0", "1", None)
    second.end(Ending.COMPLETE, 400)
    assert agenda.next_due_ns == 400
    third = next_due(agenda)
    assert (third.request_id, third.due_ns, agenda.next_due_ns) == ("2", 400, None)
    first.end(Ending.CLOSED, 500)
    third.end(Ending.REFUSED, 500)
    assert [next_due(agenda).request_id for _ in range(2)] == ["3", "4"]
    assert agenda.last_due_ns == 500


def test_a_client_stays_with_its_session_while_it_thinks() -> None:
    agenda = Agenda(plan_of(turn("1", None, "a"), turn("2", "1", "a", "b", "c"), turn("x", None, "other"), clients=1))
    agenda.begin(0)
    answered(next_due(agenda), 100)
    second = next_due(agenda)
    assert (second.request_id, second.due_ns) == ("2", 150)
    answered(second, 300)
    assert next_due(agenda).request_id == "x"


def test_limits_count_from_when_a_request_is_due() -> None:
    requests = (plain("a", deadline_ns=70), plain("b", cancel_at_ns=30))
    agenda = Agenda(plan_of(*requests, clients=1))
    agenda.begin(1000)
    first = next_due(agenda)
    assert (agenda.next_limit_ns, list(agenda.expired(1069))) == (1070, [])
    first.end(Ending.COMPLETE, 1050)
    second = next_due(agenda)
    assert list(agenda.expired(1075)) == []
    assert agenda.next_limit_ns == 1080
    ((expired, ending),) = agenda.expired(1080)
    assert (expired, ending, expired.error) == (second, Ending.CANCELED, PLANNED_CANCEL)


def test_after_the_close_nothing_falls_due() -> None:
    agenda = Agenda(plan_of(plain("a"), plain("b"), clients=1))
    agenda.begin(0)
    first = next_due(agenda)
    agenda.close()
    first.end(Ending.CANCELED, 5)
    assert agenda.next_due_ns is None


@pytest.mark.parametrize(
    "requests",
    [
        (turn("2", "1", "a", "b", "c"),),
        (turn("2", "1", "a", "b", "c"), turn("1", None, "a")),
        (plain("1"), turn("2", "1", "a", "b", "c")),
        (turn("1", None, "a"), turn("2", "1", "a", "b", "c"), turn("3", "1", "a", "b", "c")),
    ],
)
def test_a_turn_can_only_follow_one_that_comes_before(requests: tuple[ReplayRequest, ...]) -> None:
    with pytest.raises(ValueError, match="cannot be followed"):
        plan_of(*requests)


def test_a_closed_loop_needs_a_client() -> None:
    with pytest.raises(ValueError, match="clients"):
        plan_of(plain("a"), clients=0)


def test_the_longest_replay_allows_each_waiting_request_its_patience() -> None:
    assert plan_of(plain("a", 5), plain("b")).longest_ns() == 1005
    assert plan_of(plain("a", 5), plain("b"), clients=1).longest_ns() == 3005
    assert plan_of(turn("1", None, "a"), turn("2", "1", "a", "b", "c")).longest_ns() == 2050
