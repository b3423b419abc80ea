"""Which requests are verified, and how they are asked."""

from collections import Counter
from typing import Any

from app.domain.greedy import Prompt
from app.domain.trace import Trace, parse_trace
from app.domain.trace_request import TraceRequest
from app.domain.vocabulary import NS_PER_S
from tests.domain.test_trace_sessions import session
from tests.factories import encode_lines, make_trace
from worker.verification.asking import greedily
from worker.verification.choosing import PER_STRATUM, PER_WORKLOAD_MAX, choose
from worker.verification.diagnosis import PROMPTS_MAX, choose_again, requests_of

LOADS = ({"name": "low", "rate_rps": 4.0}, {"name": "high", "rate_rps": 8.0})


def chosen(trace: Trace, seed: int = 1) -> tuple[TraceRequest, ...]:
    return choose({"tasks": trace}, seed).prompts["tasks"]


def labelled(strata: list[dict[str, str]], **fields: Any) -> Trace:
    """A request for each of these labels."""
    plain = make_trace(requests=len(strata), **fields)
    requests = [r.model_copy(update={"strata": strata[i]}) for i, r in enumerate(plain.of_load("low"))]
    return Trace(header=plain.header, requests=(*plain.of_load("warmup"), *requests))


def test_every_stratum_is_there_and_none_is_asked_more_than_it_must() -> None:
    strata = [{"task": "common", "input": "short"}] * 40 + [{"task": "rare", "input": "long"}] * 3
    found = chosen(labelled(strata))
    assert Counter(r.strata["task"] for r in found) == {"common": PER_STRATUM, "rare": 3}
    assert len({r.request_id for r in found}) == len(found)


def test_many_strata_stay_within_the_cap() -> None:
    found = chosen(labelled([{"task": f"t{i}"} for i in range(60)]))
    assert len(found) == PER_WORKLOAD_MAX


def test_every_load_can_be_chosen_from_and_the_warm_up_never() -> None:
    trace = make_trace(loads=LOADS, requests=2, warmup=3)
    assert {r.load for r in chosen(trace)} == {"low", "high"}


def test_the_same_seed_chooses_the_same_and_another_one_others() -> None:
    trace = labelled([{"task": "copy"}] * 40)
    assert chosen(trace) == chosen(trace)
    assert chosen(trace) != chosen(trace, seed=2)


def test_what_the_trace_ends_early_is_left_out_and_counted() -> None:
    found = choose({"tasks": make_trace(requests=3, warmup=0, cancel_at_ns=NS_PER_S)}, 1)
    assert found.prompts["tasks"] == ()
    assert found.left_out == {"tasks": "3 of 3 requests: the trace ends them early"}


def test_a_turn_with_own_answers_is_asked_with_the_recorded_ones_and_told() -> None:
    turns = [turn | {"load": "low"} for turn in session("own")]
    header = {
        "format": "verdraft/trace/v0",
        "name": "turns",
        "description": "d",
        "source": "s",
        "content_valid": True,
        "warmup_requests": 0,
        "loads": [{"name": "low", "rate_rps": 1.0, "requests": len(turns), "duration_ns": NS_PER_S, "turns": "own"}],
    }
    found = choose({"turns": parse_trace(encode_lines([header, *turns]))}, 1)
    assert all(r.turn is None for r in found.prompts["turns"])
    first, *later = (r.request_id for r in found.prompts["turns"])
    assert set(found.left_out) == {f"turns/{name}" for name in later}
    assert f"turns/{first}" not in found.left_out


def test_greedily_changes_the_temperature_and_nothing_else() -> None:
    trace = make_trace(sampling={"temperature": 0.9, "presence_penalty": 0.5}, stop=["x"], max_tokens=7)
    (asked, *_) = greedily({"tasks": trace.of_load("low")})["tasks"]
    (stood, *_) = trace.of_load("low")
    assert asked.sampling is not None
    assert asked.sampling.temperature == 0
    same = asked.model_copy(update={"sampling": stood.sampling})
    assert (same, asked.sampling.presence_penalty) == (stood, 0.5)


def test_a_block_asks_no_more_than_its_cap_again_and_names_the_others() -> None:
    differing = [Prompt("tasks", f"tasks-low-{i}") for i in range(PROMPTS_MAX + 3)]
    asked = choose_again(differing * 2, "seed")
    assert len(asked.prompts) == PROMPTS_MAX
    assert len(asked.left_out) == 3
    assert asked.left_out.keys().isdisjoint(f"{p.workload}/{p.request_id}" for p in asked.prompts)
    assert choose_again(reversed(differing), "seed") == asked


def test_prompts_are_found_again_over_all_loads() -> None:
    trace = make_trace(loads=LOADS, requests=2)
    wanted = [Prompt("tasks", "tasks-high-1"), Prompt("tasks", "tasks-low-0")]
    found = requests_of({"tasks": trace}, wanted)["tasks"]
    assert {r.request_id for r in found} == {"tasks-high-1", "tasks-low-0"}
