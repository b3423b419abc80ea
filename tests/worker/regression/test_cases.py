"""Every case of the suite passes on a server that does it right, and is seen failing on one that does not."""

import pytest

from tests.fakes.mutations import NAMES
from tests.worker.regression.conftest import Pair
from worker.regression.suite import CASES
from worker.regression.verdicts import Status

BREAKS = {
    "greedy-equality": ("wrong_token", "negative_token", "usage_wrong", "strange_form"),
    "presence-penalty": ("ignores:presence_penalty",),
    "frequency-penalty": ("ignores:frequency_penalty",),
    "repetition-penalty": ("ignores:repetition_penalty",),
    "bad-words": ("ignores:bad_words",),
    "allowed-token-ids": ("ignores:allowed_token_ids",),
    "min-p": ("ignores:min_p", "refuses_namelessly"),
    "logit-bias": ("ignores:logit_bias", "refuses_namelessly"),
    "temperature": ("ignores:temperature",),
    "top-k": ("ignores:top_k",),
    "top-p": ("ignores:top_p",),
    "seeds": ("ignores:seed", "seeds_alike"),
    "n-choices": ("choice_missing",),
    "n-drawn": ("choices_alike", "choice_missing"),
    "eos-in-draft": ("token_after_eos",),
    "ignore-eos": ("ignores:ignore_eos",),
    "stop-string-text": ("stop_leaked",),
    "stop-string-tokens": ("tokens_behind_stop",),
    "stop-string-included": ("stop_never_included", "stop_leaked"),
    "stop-string-streamed": ("stop_leaked_in_stream",),
    "stop-token-ids": ("ignores:stop_token_ids",),
    "max-tokens-exact": ("one_token_too_many",),
    "min-tokens": ("ignores:min_tokens",),
    "one-token": ("one_token_too_many",),
    "one-token-prompt": ("wrong_for_short_prompts",),
    "logprobs": ("logprobs_shifted",),
    "top-logprobs": ("top_logprobs_shifted",),
    "chat-logprobs": ("logprobs_shifted", "top_logprobs_shifted"),
    "prompt-logprobs": ("prompt_logprobs_short",),
    "logprobs-streamed": ("streamed_logprob_lost",),
    "json-schema": ("leaves_the_grammar",),
    "regex": ("leaves_the_grammar",),
    "choice": ("leaves_the_grammar",),
    "grammar": ("leaves_the_grammar",),
    "hostile-draft": ("leaves_the_grammar",),
    "structured-drawn": ("leaves_the_grammar",),
    "streamed": ("chunk_lost", "lacks_done"),
    "streamed-chat": ("chunk_lost", "lacks_done"),
    "unicode": ("half_characters",),
    "echo": ("ignores:echo",),
    "empty-prompt": ("empty_prompt_served",),
    "prompt-too-long": ("truncates_prompt",),
    "cancellation": ("slot_not_freed", "abort_not_counted"),
    "incomplete-stream": ("lacks_done",),
    "batch-equals-serial": ("wrong_beside_others",),
    "mixed-batch": ("wrong_beside_others",),
    "preemption": ("wrong_after_preemption",),
    "prefix-cache": ("wrong_from_cache",),
    "shared-prefix": ("wrong_from_cache",),
    "long-context": ("wrong_beyond_window",),
    "full-context": ("wrong_beyond_window", "one_token_too_many"),
    "counters": ("overcounts_accepted",),
    "drafts": ("drafts_nothing",),
    "killed-mid-stream": ("pretends_to_end",),
    "wider-vocabulary": ("wrong_token",),
    "two-vocabularies": ("wrong_token",),
}
ELSEWHERE = {"shows_speculation", "dies", "dies_of_stops", "errs_of_stops"}
"""Mutations of other tests."""
HARMLESS = [case.name for case in CASES if not case.ends_server]


@pytest.mark.parametrize("name", HARMLESS)
async def test_a_server_that_does_it_right_passes(pair: Pair, name: str) -> None:
    cell = await pair.check(name)
    assert (cell.status, cell.words) == (Status.PASSED, cell.words)
    assert cell.requests > 0


@pytest.mark.parametrize(("name", "mutation"), [(n, m) for n in HARMLESS for m in BREAKS[n]])
async def test_a_server_that_breaks_it_fails(pair: Pair, name: str, mutation: str) -> None:
    cell = await pair.check(name, mutation)
    assert cell.status is Status.FAILED, cell
    assert cell.words
    assert cell.request


def test_every_case_is_seen_failing_and_every_mutation_is_used() -> None:
    assert {case.name for case in CASES} == BREAKS.keys()
    assert {mutation for breaks in BREAKS.values() for mutation in breaks} | ELSEWHERE == NAMES
