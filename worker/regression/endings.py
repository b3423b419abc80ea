"""Where an answer has to end, although a draft goes on: end token, stop strings and tokens, limits of length."""

from collections.abc import Sequence

from worker.regression.answers import Choice
from worker.regression.bench import Bench, greedy, holds, holds_tokens, needs
from worker.regression.case import Case
from worker.regression.verdicts import Broken

LONG = 32
STOP_CHARS, STOP_STEP, STOPS_MAX = 5, 9, 4
STOP_POSITIONS = (2, 3, 5, 8, 13)
BEYOND, LATER = 6, 32


async def eos_in_draft(bench: Bench) -> None:
    ended = [found for found in [await _ended(bench, prompt) for prompt in bench.prompts.ending] if found is not None]
    needs(ended, "no answer to its prompts ends by itself")
    inside = [accepted for accepted in ended if accepted]
    bench.note(f"{len(ended)} answers end by themselves, {len(inside)} of them in a step that accepted drafts")


async def _ended(bench: Bench, prompt: Sequence[int]) -> int | None:
    """Draft tokens accepted in the last step, of an answer that ends by itself; ``None`` of others."""
    _, found = await bench.both(greedy(prompt, LONG + LATER))
    choice = found.only
    early = [token for token in choice.token_ids[:-1] if token in bench.eos_ids]
    if early:
        raise Broken("tokens after the end token", expected=f"{sorted(bench.eos_ids)} only at the end", found=choice)
    return found.last_accepted or 0 if choice.finish_reason == "stop" else None


async def ignore_eos(bench: Bench) -> None:
    for prompt in bench.prompts.ending[:2]:
        _, found = await bench.both(greedy(prompt, LONG, ignore_eos=True))
        _is_cut_at(found.only, LONG)


async def stop_string_text(bench: Bench) -> None:
    for prompt, full, stop in await _stops(bench):
        found = (await bench.ask(greedy(prompt, LONG, ignore_eos=True, stop=[stop]))).only
        holds(f"the text before stop string {stop!r}", found.text, full.text[: full.text.find(stop)])
        holds("the ending", found.ending, ("stop", stop))


async def stop_string_tokens(bench: Bench) -> None:
    for prompt, _, stop in await _stops(bench):
        await bench.both(greedy(prompt, LONG, ignore_eos=True, stop=[stop]))


async def stop_string_included(bench: Bench) -> None:
    for prompt, full, stop in await _stops(bench):
        body = greedy(prompt, LONG, ignore_eos=True, stop=[stop], include_stop_str_in_output=True)
        found = (await bench.ask(body)).only
        holds(f"the text up to stop string {stop!r}", found.text, full.text[: full.text.find(stop) + len(stop)])


async def stop_string_streamed(bench: Bench) -> None:
    for prompt, full, stop in (await _stops(bench))[:3]:
        found = (await bench.stream(greedy(prompt, LONG, ignore_eos=True, stop=[stop]))).only
        holds(f"the streamed text before stop string {stop!r}", found.text, full.text[: full.text.find(stop)])


async def _stops(bench: Bench) -> list[tuple[Sequence[int], Choice, str]]:
    """Prompts, their full answers, and strings in those that begin at ever other places of a token and of a draft."""
    found: list[tuple[Sequence[int], Choice, str]] = []
    for prompt in (bench.prompts.repeating, *bench.prompts.open_ended[:2]):
        full = (await bench.reference(greedy(prompt, LONG, ignore_eos=True))).only
        starts = range(4, len(full.text) - STOP_CHARS, STOP_STEP)
        stops = dict.fromkeys(full.text[start : start + STOP_CHARS] for start in starts)
        found += [(prompt, full, stop) for stop in [s for s in stops if s.strip()][:STOPS_MAX]]
    needs(found, "the reference's answers are too short for stop strings")
    return found


async def stop_token_ids(bench: Bench) -> None:
    for prompt in (bench.prompts.repeating, bench.prompts.open_ended[0]):
        full = (await bench.reference(greedy(prompt, LONG, ignore_eos=True))).only
        for token in dict.fromkeys(full.token_ids[position] for position in STOP_POSITIONS):
            found = (await bench.ask(greedy(prompt, LONG, ignore_eos=True, stop_token_ids=[token]))).only
            holds_tokens(found.token_ids, full.token_ids[: full.token_ids.index(token) + 1])
            holds("the ending", found.ending, ("stop", token))


async def max_tokens_exact(bench: Bench) -> None:
    for prompt in (bench.prompts.repeating, bench.prompts.open_ended[0]):
        full = (await bench.reference(greedy(prompt, LONG, ignore_eos=True))).only
        for limit in range(1, bench.k + 4):
            found = (await bench.ask(greedy(prompt, limit, ignore_eos=True))).only
            _is_cut_at(found, limit)
            holds_tokens(found.token_ids, full.token_ids[:limit])


async def min_tokens(bench: Bench) -> None:
    seen = 0
    for prompt in bench.prompts.ending[:3]:
        ended = (await bench.reference(greedy(prompt, LONG + LATER))).only
        if ended.finish_reason != "stop":
            continue
        seen += 1
        least = len(ended.token_ids) + BEYOND
        _, found = await bench.both(greedy(prompt, least + BEYOND, min_tokens=least))
        if len(found.only.token_ids) < least or bench.eos_ids & set(found.only.token_ids[: least - 1]):
            raise Broken("min_tokens", expected=f"at least {least} tokens, no end token before", found=found)
    needs(seen, "no answer to its prompts ends by itself")


async def one_token(bench: Bench) -> None:
    for prompt in (*bench.prompts.ending[:3], *bench.prompts.open_ended[:3]):
        _, found = await bench.both(greedy(prompt, 1, ignore_eos=True))
        _is_cut_at(found.only, 1)


async def one_token_prompt(bench: Bench) -> None:
    for token in bench.prompts.open_ended[0][:3]:
        await bench.both(greedy([token], 12, ignore_eos=True))


def _is_cut_at(choice: Choice, limit: int) -> None:
    if (len(choice.token_ids), choice.finish_reason) != (limit, "length"):
        raise Broken("the length", expected=f"{limit} tokens, finish_reason length", found=choice)


CASES = (
    Case("eos-in-draft", "a draft may hold the end token and more after it; nothing after it may be given out",
         eos_in_draft, ("vllm-project/vllm#56101",)),
    Case("ignore-eos", "with ignore_eos the end token is a token like any other, also inside a draft", ignore_eos),
    Case("stop-string-text", "a stop string may cross the border of a chunk and of a draft; the text ends before it",
         stop_string_text),
    Case("stop-string-tokens", "tokens accepted behind a stop string are not part of the answer, nor of its usage",
         stop_string_tokens),
    Case("stop-string-included", "with include_stop_str_in_output the text ends with the stop string and no later",
         stop_string_included),
    Case("stop-string-streamed", "a stream must hold back what may become a stop string; a step brings many tokens",
         stop_string_streamed),
    Case("stop-token-ids", "a stop token inside a draft ends the answer there, whatever was accepted behind it",
         stop_token_ids),
    Case("max-tokens-exact", "a draft may overshoot max_tokens; the answer may not, whatever k is", max_tokens_exact),
    Case("min-tokens", "below min_tokens the end token is forbidden, at every position of a draft", min_tokens),
    Case("one-token", "an answer of one token has no room for a draft", one_token),
    Case("one-token-prompt", "a prompt of one token gives a lookup and a head the least to go by", one_token_prompt),
)  # fmt: skip
