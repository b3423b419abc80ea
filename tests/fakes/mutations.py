"""Ways in which a server breaks the output guarantee, by name; a file beside the model says which are on.

The file is read at each request, so that one server can be seen breaking everything in turn.
"""

import json
from pathlib import Path

FILE_NAME = "mutations.json"
IGNORES = (
    *("presence_penalty", "frequency_penalty", "repetition_penalty", "bad_words", "allowed_token_ids", "min_p"),
    *("logit_bias", "temperature", "top_k", "top_p", "seed", "min_tokens", "ignore_eos", "stop_token_ids", "echo"),
)
"""Parameters that ``ignores:NAME`` leaves unread."""
OTHERS = (
    "wrong_token",  # the eighth token is another
    "wrong_beside_others",  # the fourth is, where requests share a step
    "wrong_after_preemption",
    "wrong_from_cache",
    "wrong_beyond_window",  # behind 256 tokens of context
    "wrong_for_short_prompts",
    "token_after_eos",
    "stop_leaked",  # the text runs on to the end of the step
    "tokens_behind_stop",
    "stop_never_included",
    "stop_leaked_in_stream",
    "one_token_too_many",
    "logprobs_shifted",
    "top_logprobs_shifted",
    "prompt_logprobs_short",
    "streamed_logprob_lost",
    "leaves_the_grammar",
    "chunk_lost",
    "lacks_done",
    "half_characters",
    "usage_wrong",
    "empty_prompt_served",
    "truncates_prompt",
    "slot_not_freed",
    "abort_not_counted",
    "pretends_to_end",
    "choice_missing",
    "choices_alike",
    "seeds_alike",
    "overcounts_accepted",
    "drafts_nothing",
    "shows_speculation",
    "negative_token",
    "strange_form",
    "refuses_namelessly",
    "dies",
    "dies_of_stops",
    "errs_of_stops",  # and lives on
)
NAMES = frozenset(OTHERS) | {f"ignores:{name}" for name in IGNORES}


def mutations(model_directory: Path, method: str) -> frozenset[str]:
    """Those that are on for servers of ``method``. An unknown name raises ``ValueError``."""
    path = model_directory / FILE_NAME
    if not path.exists():
        return frozenset()
    on = frozenset(json.loads(path.read_text()).get(method, ()))
    if unknown := on - NAMES:
        raise ValueError(f"{FILE_NAME}: unknown mutations {', '.join(sorted(unknown))}")
    return on


def mutate(model_directory: Path, method: str, *names: str) -> None:
    """Switch on these for ``method``, and every other off."""
    whole = model_directory / f"{FILE_NAME}.new"
    whole.write_text(json.dumps({method: names}))
    whole.replace(model_directory / FILE_NAME)
