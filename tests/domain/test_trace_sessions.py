"""Turns continue their session, or the line that does not is named."""

from typing import Any, Literal

import pytest

from app.domain.errors import TraceRefused
from app.domain.trace import Trace, parse_trace
from app.domain.trace_scan import summarise
from tests.factories import encode_lines

Answer = Literal["recorded", "own"]


def message(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}


def session(answer: Answer, *, turns: int = 3, name: str = "s") -> list[dict[str, Any]]:
    """The turns of one session, a second apart."""
    messages, made = [message("user", f"{name} 0")], []
    for index in range(turns):
        link = {"session": name, "index": index, "answer": answer}
        link |= {"previous": f"{name}-{index - 1}", "think_ns": 10**9} if index else {}
        made.append(
            {
                "request_id": f"{name}-{index}",
                "load": "low",
                "due_ns": index * 10**9,
                "max_tokens": 4,
                "strata": {"task": "talk"},
                "messages": list(messages),
                "turn": link,
            }
        )
        messages += [message("assistant", f"answer {index}"), message("user", f"{name} {index + 1}")]
    return made


def header(requests: int, turns: str | None) -> dict[str, Any]:
    load = {"name": "low", "rate_rps": 1.0, "requests": requests, "duration_ns": requests * 10**9}
    return {
        "format": "verdraft/trace/v0",
        "name": "talk",
        "description": "d",
        "source": "s",
        "content_valid": True,
        "warmup_requests": 0,
        "loads": [load | ({"turns": turns} if turns else {})],
    }


def parse(requests: list[dict[str, Any]], turns: str | None) -> Trace:
    return parse_trace(encode_lines([header(len(requests), turns), *requests]))


@pytest.mark.parametrize("answer", ["recorded", "own"])
def test_sessions_may_be_woven_into_one_another(answer: Answer) -> None:
    one, other = session(answer, name="a"), session(answer, name="b")
    woven = [turn for pair in zip(one, other, strict=True) for turn in pair]
    trace = parse(woven, answer)
    assert parse_trace(trace.encode()) == trace
    found = summarise(trace.encode().splitlines())
    assert (found.sessions, f"turns:{answer}" in found.features) == (2, True)


def broken(place: int, change: dict[str, Any], answer: Answer = "own", link: dict[str, Any] | None = None) -> str:
    turns = session(answer)
    turns[place] |= change
    turns[place]["turn"] = turns[place]["turn"] | (link or {})
    with pytest.raises(TraceRefused) as refused:
        parse(turns, answer)
    problem = refused.value.problems[0]
    return f"{problem.field}: {problem.message}"


@pytest.mark.parametrize(
    ("place", "change", "link", "words"),
    [
        (1, {}, {"index": 2}, "line 3: turn.index: turn 2 of session s comes after turn 0"),
        (2, {}, {"previous": "s-0"}, "line 4: turn.previous: s-0 is not the turn before, which is s-1"),
        (0, {}, {"index": 1, "previous": "x"}, "line 2: turn.index: turn 1 is the first"),
        (1, {"due_ns": 0}, {}, ""),
        (1, {}, {"previous": None}, "line 3: turn: the first turn"),
        (1, {"messages": session("own")[1]["messages"][1:]}, {}, "do not begin with the messages"),
        (1, {"messages": session("own")[1]["messages"][:2]}, {}, "its recorded answer and something new"),
        (
            1,
            {"messages": [*session("own")[0]["messages"], message("user", "a"), message("user", "b")]},
            {},
            "recorded answer",
        ),
        (
            1,
            {
                "messages": [
                    *session("own")[1]["messages"][:2],
                    {"role": "tool", "content": "found", "tool_call_id": "c"},
                ]
            },
            {},
            "recorded tool result",
        ),
    ],
)
def test_a_turn_that_does_not_continue_is_named(
    place: int, change: dict[str, Any], link: dict[str, Any], words: str
) -> None:
    if words:
        assert words in broken(place, change, link=link)
    else:
        turns = session("own")
        turns[place] |= change
        parse(turns, "own")


def test_a_turn_is_not_due_before_the_one_before() -> None:
    turns = session("recorded")
    turns[0]["due_ns"] = 5 * 10**9
    with pytest.raises(TraceRefused, match="due before turn 0"):
        parse(turns, "recorded")


@pytest.mark.parametrize("said", [None, "recorded"])
def test_the_header_says_whose_answers_the_turns_contain(said: str | None) -> None:
    with pytest.raises(TraceRefused, match="the header says"):
        parse(session("own"), said)


def test_own_answers_need_messages() -> None:
    turn = session("own", turns=1)[0]
    del turn["messages"]
    with pytest.raises(TraceRefused, match="needs messages"):
        parse([turn | {"prompt": "x"}], "own")


def test_recorded_turns_may_be_plain_text() -> None:
    turns = session("recorded")
    for turn in turns:
        turn["prompt"] = str(turn.pop("messages"))
    assert len(parse(turns, "recorded").requests) == 3


def test_nothing_is_due_at_a_time_in_a_closed_loop() -> None:
    document = header(3, "own")
    document["loads"] = [{"name": "low", "clients": 2, "requests": 3, "duration_ns": 0, "turns": "own"}]
    turns = session("own")
    with pytest.raises(TraceRefused, match="closed loop"):
        parse_trace(encode_lines([document, *turns]))
    still = [turn | {"due_ns": 0} for turn in turns]
    assert parse_trace(encode_lines([document, *still])).header.loads[0].offered == "closed loop of 2"


@pytest.mark.parametrize(
    "load",
    [
        {"name": "low", "requests": 1, "duration_ns": 1},
        {"name": "low", "rate_rps": 1, "clients": 1, "requests": 1, "duration_ns": 1},
        {"name": "low", "clients": 1, "requests": 1, "duration_ns": 1},
        {"name": "low", "rate_rps": 1, "requests": 1, "duration_ns": 0},
    ],
)
def test_a_load_is_open_or_closed(load: dict[str, Any]) -> None:
    with pytest.raises(TraceRefused) as refused:
        parse_trace(encode_lines([header(1, None) | {"loads": [load]}, session("recorded", turns=1)[0]]))
    assert refused.value.problems[0].field == "line 1: loads[0]"
