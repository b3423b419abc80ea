"""Synthetic traces: valid, the same everywhere, covered by their warm-up, labelled for what they are."""

import hashlib
import os
import subprocess
import sys
from collections import Counter
from itertools import islice
from typing import Any

import pytest
from pydantic import ValidationError

from app.domain.arrival import gap_variation
from app.domain.errors import DomainError
from app.domain.trace import Trace, parse_trace
from app.domain.trace_scan import summarise
from app.domain.vocabulary import WARMUP
from app.settings import PROJECT_ROOT
from app.synthetic.families import Family
from app.synthetic.language import LanguageCode
from app.synthetic.make import GENERATOR, VERSION, describe, make_trace
from app.synthetic.spec import SyntheticSpec

OPEN = {"name": "low", "rate_rps": 4, "duration_s": 10}
FAST = {"name": "high", "rate_rps": 9, "duration_s": 10}
CLOSED = {"name": "c4", "clients": 4, "requests": 32}
EVERYTHING: dict[str, Any] = {
    "name": "all",
    "seed": 11,
    "loads": [OPEN, FAST, CLOSED],
    "languages": [code.value for code in LanguageCode],
    "repetitiveness": [0.0, 0.5],
    "constrained": True,
    "sampled_share": 0.3,
}
GOLDEN = "36cf0e537d57e0b2da46d04bd874d63c3d8e741cdba99c07534817650462343c"
"""The sha256 of the trace of ``EVERYTHING``: another Python, or a change without a new version, would change it."""
PRINT_DIGEST = f"""
import hashlib
from app.synthetic.make import make_trace
from app.synthetic.spec import SyntheticSpec
print(hashlib.sha256(b"".join(make_trace(SyntheticSpec.model_validate({EVERYTHING!r})))).hexdigest())
"""


def spec_of(**changes: Any) -> SyntheticSpec:
    return SyntheticSpec.model_validate({"name": "made", "seed": 5, "loads": [OPEN], **changes})


def trace_of(spec: SyntheticSpec) -> Trace:
    return parse_trace(b"".join(make_trace(spec)))


@pytest.fixture(scope="module")
def everything() -> Trace:
    return trace_of(SyntheticSpec.model_validate(EVERYTHING))


def test_its_lines_are_the_canonical_bytes(everything: Trace) -> None:
    made = b"".join(make_trace(SyntheticSpec.model_validate(EVERYTHING)))
    assert everything.encode() == made
    assert summarise(made.splitlines()).digest == everything.digest == hashlib.sha256(made).hexdigest()


def test_the_bytes_are_those_that_were_written_down(everything: Trace) -> None:
    assert everything.digest == GOLDEN


@pytest.mark.parametrize("hash_seed", ["0", "7"])
def test_the_same_bytes_in_another_process(everything: Trace, hash_seed: str) -> None:
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", PRINT_DIGEST]
    printed = subprocess.run(command, env=environment, cwd=PROJECT_ROOT, check=True, capture_output=True, text=True)
    assert printed.stdout.strip() == everything.digest


def test_the_seed_decides() -> None:
    assert trace_of(spec_of(seed=5)).digest == trace_of(spec_of()).digest != trace_of(spec_of(seed=6)).digest


def test_the_header_says_how_it_was_made_and_how_it_differs(everything: Trace) -> None:
    generator = everything.header.generator
    assert generator
    assert (generator.name, generator.version, generator.seed) == (GENERATOR, VERSION, 11)
    assert generator.dials["repetitiveness"] == [0.0, 0.5]
    assert everything.header.differs == describe(SyntheticSpec.model_validate(EVERYTHING))
    again = SyntheticSpec.model_validate({"name": "all", "seed": 11, **generator.dials})
    assert trace_of(again).digest == everything.digest


def test_prompts_never_repeat(everything: Trace) -> None:
    prompts = [request.messages for request in everything.requests]
    assert len(set(prompts)) == len(prompts)


def test_the_warm_up_covers_every_task_and_shape_of_the_loads(everything: Trace) -> None:
    def shapes(requests: tuple[Any, ...]) -> set[tuple[str, ...]]:
        keys = ("task", "language", "input", "repetitiveness")
        return {tuple(request.strata[key] for key in keys) for request in requests}

    assert shapes(everything.requests) == shapes(everything.of_load(WARMUP))


@pytest.mark.parametrize("dimension", ["task", "language", "input", "repetitiveness"])
def test_shares_are_equal_over_a_whole_deck(dimension: str) -> None:
    loads = [{"name": "low", "clients": 1, "requests": 2 * 8 * 4 * 2 * 2}]
    spec = spec_of(loads=loads, languages=list(LanguageCode), repetitiveness=[0.0, 0.5])
    counts = Counter(request.strata[dimension] for request in trace_of(spec).of_load("low"))
    assert len(set(counts.values())) == 1


def test_offsets_are_as_many_as_the_rate_says(everything: Trace) -> None:
    assert [load.requests for load in everything.header.loads] == [40, 90, 32]
    assert {request.due_ns for request in everything.of_load("c4")} == {0}
    assert [load.offered for load in everything.header.loads] == ["4 requests/s", "9 requests/s", "closed loop of 4"]


def test_shared_arrivals_of_the_lower_rate_are_among_those_of_the_higher() -> None:
    trace = trace_of(spec_of(loads=[OPEN, FAST], shared_arrivals=True))
    low, high = ({r.due_ns for r in trace.of_load(name)} for name in ("low", "high"))
    assert (len(low), len(high), low <= high) == (40, 90, True)
    assert {load.arrival.kind for load in trace.header.loads if load.arrival} == {"thinned"}


def test_bursts_and_ramps_are_made_and_labelled() -> None:
    bursty = {**OPEN, "rate_rps": 60, "arrival": "gamma", "burstiness": 0.2}
    ramp = {**OPEN, "name": "ramp", "rate_rps": 60, "arrival": "ramp", "start_rps": 0}
    trace = trace_of(spec_of(loads=[bursty, ramp]))
    assert (gap_variation([r.due_ns for r in trace.of_load("low")]) or 0) > 1.6
    early = sum(r.due_ns < 5 * 10**9 for r in trace.of_load("ramp"))
    assert early == pytest.approx(150, abs=45)
    notes = [load.arrival for load in trace.header.loads]
    assert [(n.kind, n.burstiness, n.end_rate_rps) for n in notes if n] == [("gamma", 0.2, None), ("ramp", None, 120)]


@pytest.mark.parametrize("answer", ["recorded", "own"])
def test_sessions_of_several_turns(answer: str) -> None:
    spec = spec_of(loads=[OPEN, CLOSED], sessions={"turns": 3, "answer": answer, "think_s": 0.5})
    trace = trace_of(spec)
    assert [load.requests for load in trace.header.loads] == [39, 30]
    assert {load.turns for load in trace.header.loads} == {answer}
    later = [request for request in trace.requests if request.strata.get("turn") == "later"]
    assert len(later) == 2 * (13 + 10)
    assert all(r.messages[-2].content and r.turn and r.turn.think_ns == 500_000_000 for r in later)


def test_text_can_be_pre_tokenised() -> None:
    spec = spec_of(form="text", template="<u>{task}</u>", languages=["zh"])
    trace = parse_trace(b"".join(make_trace(spec, lambda text: list(text.encode()))))
    request = trace.requests[0]
    assert bytes(request.prompt_token_ids).decode() == request.prompt_text
    assert (request.prompt_text or "").startswith("<u>")
    assert {r.prompt for r in trace.requests} == {None}
    plain = trace_of(spec)
    assert [r.prompt for r in plain.requests] == [r.prompt_text for r in trace.requests]


def test_only_some_requests_sample_and_each_has_its_own_seed(everything: Trace) -> None:
    sampled = [r for r in everything.requests if r.sampling]
    assert 0.2 < len(sampled) / len(everything.requests) < 0.4
    assert len({r.sampling.seed for r in sampled if r.sampling}) == len(sampled)
    assert {r.strata["sampling"] for r in sampled} == {"sampled"}


def test_only_extraction_is_constrained(everything: Trace) -> None:
    assert {r.strata["task"] for r in everything.requests if r.structured_outputs} == {Family.EXTRACT}


def test_a_right_answer_has_room(everything: Trace) -> None:
    for request in everything.requests:
        if request.reference is not None:
            assert request.max_tokens >= len(request.reference.encode()) // 2 + 16


def test_a_million_requests_are_not_made_before_the_first_is_asked_for() -> None:
    spec = spec_of(loads=[{"name": "low", "clients": 1, "requests": 1_000_000}])
    assert len(list(islice(make_trace(spec), 5))) == 5


def test_where_prompts_run_out_it_says_so() -> None:
    short = spec_of(families=["continue"], lengths=["short"], loads=[{"name": "low", "clients": 1, "requests": 10}])
    assert trace_of(short)
    with pytest.raises(DomainError, match="form"):
        next(make_trace(short, lambda _: [1]))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"loads": [{"name": "low", "rate_rps": 4}]}, "neither an open nor a closed loop"),
        ({"loads": [{**OPEN, "clients": 2}]}, "neither an open nor a closed loop"),
        ({"loads": [{**OPEN, "name": "warmup"}]}, "reserved"),
        ({"loads": [{**OPEN, "burstiness": 0.5}]}, "belongs to gamma"),
        ({"loads": [{**OPEN, "arrival": "gamma"}]}, "belongs to gamma"),
        ({"loads": [{**OPEN, "start_rps": 1}]}, "belongs to ramp"),
        ({"loads": [OPEN, OPEN]}, "same name"),
        ({"sessions": {"turns": 2, "answer": "own"}, "form": "text"}, "conversations"),
        ({"shared_arrivals": True, "loads": [OPEN, {**FAST, "duration_s": 5}]}, "equally long"),
        ({"warmup_requests": 3}, "cannot cover"),
        ({"template": "none"}, "no single place"),
        ({"families": ["sums"]}, "Input should be"),
        ({"surprise": 1}, "Extra inputs"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        spec_of(**change)


def test_it_says_what_each_dial_makes_unlike_production() -> None:
    plain, rich = describe(spec_of()), describe(spec_of(loads=[OPEN, CLOSED], sessions={"turns": 2, "answer": "own"}))
    assert any("poisson" in sentence for sentence in plain)
    assert not any("Closed" in sentence for sentence in plain)
    assert any("c4" in sentence for sentence in rich)
    assert any("sessions" in sentence for sentence in rich)
