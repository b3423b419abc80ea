"""Streams: put together they are the whole answer, cut off they are no success, and left they free their slot."""

import asyncio
import os
import signal
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from app.domain.exposition import GENERATION_TOKENS, REQUEST_SUCCESS, RUNNING, Exposition
from app.domain.observation import RequestObservation
from app.domain.vocabulary import NS_PER_S, Outcome
from worker.cores import split_cores
from worker.regression.bench import CHAT, COMPLETIONS, Bench, Body, greedy, holds, needs, same
from worker.regression.case import Case
from worker.regression.relay import RELAYED, Cut, relay
from worker.regression.verdicts import Broken, EngineRefused, NotApplicable
from worker.replay.plan import ReplayPlan, ReplayRequest
from worker.replay.process import ReplayClient

TOKENS = 24
UNICODE = "größer 日本語のテキスト — naïve 🙂 Ελληνικά"
"""Characters of two to four bytes, most of them cut into several tokens by a small vocabulary."""
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
ABORT = "abort"
ECHOED = "one two three one two three one two"
POLL_S = 0.05
REPLAY_PATIENCE_S = 60


async def streamed(bench: Bench) -> None:
    for prompt in (bench.prompts.repeating, *bench.prompts.ending[:3], *bench.prompts.open_ended[:2]):
        body = greedy(prompt, TOKENS)
        expected = await bench.reference(body)
        found = await bench.stream(body)
        same(found, expected)
        holds("the usage", found.completion_tokens, expected.completion_tokens)


async def streamed_chat(bench: Bench) -> None:
    for content in ("Say a, b, a, b, a, b.", "Repeat after me: one two three one two three."):
        body = {"messages": [{"role": "user", "content": content}], "max_tokens": TOKENS, "temperature": 0}
        expected, _ = await bench.both(body, CHAT)
        found = await bench.stream(body, CHAT)
        same(found, expected)
        holds("the usage", found.completion_tokens, expected.completion_tokens)


async def unicode(bench: Bench) -> None:
    """The text is forced by a choice of one, so that any model writes it."""
    body = greedy("Write: ", 120, structured_outputs={"choice": [UNICODE]})
    expected, _ = await bench.both(body)
    holds("the whole text", expected.only.text, UNICODE)
    found = (await bench.stream(body)).only
    holds("the streamed text", found.text, UNICODE)
    broken = [chunk for chunk in found.chunks if REPLACEMENT in chunk]
    holds("chunks with half a character", broken, [])
    bench.note(f"{len(UNICODE.encode())} bytes in {len(found.token_ids)} tokens and {len(found.chunks)} chunks of text")


async def cancellation(bench: Bench) -> None:
    """A client that leaves in the middle: nothing runs on, the abort is counted, the next answer is as ever."""
    before = _aborts(await bench.metrics())
    body = greedy(bench.prompts.open_ended[0], _room(bench, 0), ignore_eos=True)
    async with bench.streaming(body) as response:
        async for _ in response.aiter_bytes():
            break
    await _until(bench, lambda told: told.value(RUNNING) == 0, "no request running after the client left")
    _is_counted_alike(bench, (_aborts(await bench.metrics()) or 0) - (before or 0))
    await bench.both(greedy(bench.prompts.open_ended[1], TOKENS))


async def incomplete(bench: Bench) -> None:
    """Real streams of this server, cut by a relay in three ways: our client may call none of them a success."""
    body = greedy(bench.prompts.open_ended[0], TOKENS, ignore_eos=True)
    with tempfile.TemporaryDirectory(prefix="vd-") as scratch:
        socket_path = f"{scratch}/r"
        async with relay(socket_path, bench.socket_path, RELAYED):
            seen = await _replayed(bench, socket_path, dict.fromkeys(RELAYED, body), Path(scratch))
    _must_be_seen(seen)


def _must_be_seen(seen: Mapping[str, RequestObservation]) -> None:
    for name, observation in seen.items():
        if (observation.outcome is Outcome.SUCCESS) != (RELAYED[name] is Cut.NOTHING):
            wanted = "a success" if RELAYED[name] is Cut.NOTHING else "no success"
            raise Broken(f"the outcome of a stream with {name}", expected=wanted, found=observation.outcome)


async def killed(bench: Bench) -> None:
    """The server is killed in the middle of a stream."""
    body = greedy(bench.prompts.open_ended[0], _room(bench, 0), ignore_eos=True)
    with tempfile.TemporaryDirectory(prefix="vd-") as scratch:
        before = (await bench.metrics_now()).value(GENERATION_TOKENS)
        replaying = asyncio.create_task(_replayed(bench, bench.socket_path, {"killed": body}, Path(scratch)))
        try:
            await _until(bench, lambda told: told.value(GENERATION_TOKENS) > before, "the answer begun")
            _kill(bench.socket_path)
        finally:
            seen = await replaying
    outcome = seen["killed"].outcome
    if outcome is Outcome.SUCCESS and seen["killed"].finish_reason == "length":
        raise NotApplicable("the answer was complete before the server was killed")
    if outcome is Outcome.SUCCESS:
        raise Broken("the outcome of a stream whose server was killed", expected="no success", found=outcome)
    bench.note(f"{outcome} after {len(seen['killed'].token_ids)} tokens")


def _kill(socket_path: str) -> None:
    """Every process that has the socket in its command line; the engine's own processes follow their parent."""
    for process in psutil.process_iter(["cmdline"]):
        if socket_path in (process.info["cmdline"] or ()):
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)


async def _replayed(
    bench: Bench, socket_path: str, bodies: Mapping[str, Any], scratch: Path
) -> dict[str, RequestObservation]:
    """What the product's client makes of the streams."""
    plan = ReplayPlan(
        socket_path=socket_path,
        host=None,
        port=None,
        path=COMPLETIONS,
        requests=tuple(ReplayRequest(name, 0, bench.streamed_body(body)) for name, body in bodies.items()),
        drain_timeout_ns=REPLAY_PATIENCE_S * NS_PER_S,
        cores=split_cores().client,
        lead_in_ns=NS_PER_S // 10,
        clients=1,
        spin_ns=0,
    )
    async with ReplayClient() as replaying:
        record = await replaying.replay(plan, scratch / "replay")
    for observation in record.observations:
        bench.exchanges[-1].response += f"{observation.request_id}: {observation.outcome}, {observation.error}; "
    return {observation.request_id: observation for observation in record.observations}


async def _until(bench: Bench, holds_now: Callable[[Exposition], bool], what: str) -> None:
    deadline = asyncio.get_running_loop().time() + bench.patience_s
    while not holds_now(await bench.metrics_now()):
        if asyncio.get_running_loop().time() > deadline:
            raise Broken("the server", expected=what, found=f"not so after {bench.patience_s:g} s")
        await asyncio.sleep(POLL_S)


def _is_counted_alike(bench: Bench, counted: float) -> None:
    """An engine need not count an abort; one that does for target-only has to for drafts as well."""
    if bench.is_reference:
        bench.kept.aborts_counted = counted
    elif counted != (bench.kept.aborts_counted or 0):
        raise Broken("the abort", expected=f"counted as {bench.kept.aborts_counted or 0:g}", found=f"{counted:g}")
    bench.note(f"counted as {counted:g} aborts")


def _aborts(told: Exposition) -> float | None:
    """How many requests were aborted, where the engine counts them."""
    counted = ABORT in told.label_values(REQUEST_SUCCESS, "finished_reason")
    return told.value(REQUEST_SUCCESS, finished_reason=ABORT) if counted else None


def _room(bench: Bench, least: int) -> int:
    """As many tokens as fit behind the first open prompt, within reason."""
    room = bench.max_model_len - len(bench.prompts.open_ended[0]) - 1
    needs(room > least, "there is no room for an answer")
    return min(room, 1024)


async def echo(bench: Bench) -> None:
    plain = await bench.reference(greedy(ECHOED, 8, ignore_eos=True))
    body = greedy(ECHOED, 8, echo=True, ignore_eos=True, return_token_ids=False)  # with ids the engine leaves it out
    _, found = await bench.both(body)
    holds("the echoed text", found.only.text, ECHOED + plain.only.text)


async def empty_prompt(bench: Bench) -> None:
    """Nothing to go by: refused with the client's error, not served and not deadly."""
    await _must_refuse(bench, greedy([], 4), "an empty prompt", ("prompt", "input"))


async def too_long(bench: Bench) -> None:
    prompt = bench.prompts.of_length(bench.max_model_len + 1)
    await _must_refuse(bench, greedy(prompt, 4), "a prompt beyond max_model_len", (str(bench.max_model_len),))


async def _must_refuse(bench: Bench, body: Body, what: str, words: tuple[str, ...]) -> None:
    """With words that name the reason: a refusal for another one would hide that nothing is checked."""
    try:
        found = await bench.ask(body)
    except EngineRefused as refused:
        if not any(word in str(refused).lower() for word in words):
            raise Broken(what, expected=f"an error that says {' or '.join(words)}", found=refused) from refused
        bench.note(f"refused: {refused}")
    else:
        raise Broken(what, expected="an error of status 4xx", found=found)


CASES = (
    Case("streamed", "what comes in chunks is what comes at once: text, ids, usage, ending", streamed),
    Case("streamed-chat", "the same on the chat route", streamed_chat),
    Case("unicode", "a character's bytes may come in different tokens, steps and chunks", unicode),
    Case("echo", "the prompt is given back before the answer", echo),
    Case("empty-prompt", "drafters index into the prompt; an empty one must not reach them", empty_prompt),
    Case("prompt-too-long", "what does not fit is refused by name", too_long),
    Case("cancellation", "who leaves frees the slot, also with drafts under way", cancellation),
    Case("incomplete-stream", "a stream that is cut, or lacks its end, is no success for our client", incomplete),
)  # fmt: skip
KILLED = Case("killed-mid-stream", "neither is one whose server was killed", killed, ends_server=True)
