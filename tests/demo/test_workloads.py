import os
import subprocess
import sys
from collections import Counter

import pytest
from tokenizers import Tokenizer

from app.demo.tasks import EDIT_FAMILIES
from app.demo.workloads import PROMPT_TOKENS_MAX, WARMUP_REQUESTS, build_traces, demo_loads
from app.domain.trace import Trace, parse_trace
from app.domain.vocabulary import WARMUP
from app.settings import PROJECT_ROOT
from tests.demo.answers import is_right
from tests.demo.conftest import TOKENIZER

PRINT_DIGESTS = f"""
from tokenizers import Tokenizer
from app.demo.workloads import build_traces, demo_loads
print(*(t.digest for t in build_traces(Tokenizer.from_file({str(TOKENIZER)!r}), demo_loads(5.0, 14.0))))
"""


def test_the_same_digest_again(tokenizer: Tokenizer, traces: tuple[Trace, ...]) -> None:
    again = build_traces(tokenizer, demo_loads(5.0, 14.0))
    assert [t.digest for t in again] == [t.digest for t in traces]


@pytest.mark.parametrize("hash_seed", ["0", "7"])
def test_the_same_digest_in_another_process(traces: tuple[Trace, ...], hash_seed: str) -> None:
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", PRINT_DIGESTS]
    printed = subprocess.run(command, env=environment, cwd=PROJECT_ROOT, check=True, capture_output=True, text=True)
    assert printed.stdout.split() == [t.digest for t in traces]


def test_the_traces_are_valid_as_files(traces: tuple[Trace, ...]) -> None:
    assert [parse_trace(trace.encode()) for trace in traces] == list(traces)


def test_prompts_are_disjoint_between_loads_and_workloads(traces: tuple[Trace, ...]) -> None:
    prompts = [request.prompt_token_ids for trace in traces for request in trace.requests]
    assert len(set(prompts)) == len(prompts)


def test_the_warm_up_covers_every_stratum_of_the_loads(traces: tuple[Trace, ...]) -> None:
    for trace in traces:
        warmup = {item for request in trace.of_load(WARMUP) for item in request.strata.items()}
        assert {item for request in trace.requests for item in request.strata.items()} == warmup
        assert len(trace.of_load(WARMUP)) == WARMUP_REQUESTS


def test_every_family_has_the_same_share_of_every_load(traces: tuple[Trace, ...]) -> None:
    for trace in traces:
        for load in trace.header.loads:
            counts = Counter(request.strata["task"] for request in trace.of_load(load.name))
            assert max(counts.values()) - min(counts.values()) <= 1


def test_prompts_fit_and_a_right_answer_is_not_cut_off(tokenizer: Tokenizer, traces: tuple[Trace, ...]) -> None:
    for request in (r for trace in traces for r in trace.requests):
        assert len(request.prompt_token_ids) <= PROMPT_TOKENS_MAX
        if request.reference is not None:
            assert len(tokenizer.encode(request.reference).ids) < request.max_tokens


def test_the_prompt_text_is_what_the_tokens_say(tokenizer: Tokenizer, traces: tuple[Trace, ...]) -> None:
    for request in (r for trace in traces for r in trace.requests):
        assert tokenizer.decode(list(request.prompt_token_ids), skip_special_tokens=False) == request.prompt_text


def test_every_reference_is_the_right_answer(traces: tuple[Trace, ...]) -> None:
    edit, open_ended = traces
    for request in edit.requests:
        assert request.prompt_text
        assert request.reference
        assert is_right(request.strata["task"], request.prompt_text, request.reference), request.prompt_text
    assert {request.strata["task"] for request in edit.requests} == set(EDIT_FAMILIES)
    assert {request.reference for request in open_ended.requests} == {None}


def test_the_check_of_answers_refuses_wrong_ones(traces: tuple[Trace, ...]) -> None:
    """Each family's check must be able to fail: the answer of another request of the family is wrong."""
    for family in EDIT_FAMILIES:
        first, *others = [request for request in traces[0].requests if request.strata["task"] == family]
        assert first.prompt_text
        other = next(r for r in others if r.reference != first.reference)
        assert not is_right(family, first.prompt_text, other.reference or "")


def test_rates_change_the_loads_but_not_the_warm_up(tokenizer: Tokenizer, traces: tuple[Trace, ...]) -> None:
    faster = build_traces(tokenizer, demo_loads(9.0, 30.0))
    for trace, other in zip(traces, faster, strict=True):
        assert trace.of_load(WARMUP) == other.of_load(WARMUP)
        assert [p.requests for p in other.header.loads] == [72, 300]
