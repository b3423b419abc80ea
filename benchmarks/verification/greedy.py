"""Greedy equality on the demo's servers: clean, with each defect, and how often clean servers are accused."""

import random
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace

from app.domain.greedy import Answer, Prompt
from app.domain.manifest import Manifest
from app.domain.trace_request import TraceRequest
from app.domain.verified import VerificationRecord
from app.domain.vocabulary import BASELINE_ARM
from benchmarks.verification.examining import Block, Examined, Reference, asking, judged
from benchmarks.verification.rows import Row, Share, alarms, caught
from benchmarks.verification.serving import Site, spoilt
from tests.fakes.defects import Defect, Kind
from worker.engine.server import VllmServer
from worker.replay.process import ReplayClient
from worker.verification.asking import Asker, Prompts
from worker.verification.diagnosis import answers_of
from worker.verification.phase import verify_greedily

POWER = 0.9
DECLARED = 0.05
"""One-sided, of an excess over the control. A defect's class has no error rate of its own: it rests on a tolerance."""
CHANCE = 0.1
CERTAIN = (
    Defect(Kind.TOKEN_SWAPPED),
    Defect(Kind.TOKEN_SWAPPED, only_concurrent=True),
    Defect(Kind.STOP_LEAKED),
    Defect(Kind.LAST_DROPPED),
    Defect(Kind.FINISH_CHANGED),
)


@dataclass(frozen=True, slots=True)
class Pair:
    """Target-only with its answers and an arm's server, both up."""

    site: Site
    client: ReplayClient
    reference: Reference
    arm: VllmServer

    async def examined(self, defect: Defect) -> tuple[Examined, int]:
        """With the number of requests that met the defect."""
        async with spoilt(self.site, self.arm.spec, defect) as (seen, proxy):
            with asking(self.client, seen, self.site.manifest.sampling) as ours:
                return await self.reference.examine(ours), proxy.spoilt


async def long_and_stopped(asked: Asker, requests: Sequence[TraceRequest], count: int) -> Prompts:
    """The requests with the longest answers, and the same with a stop string out of each answer."""
    said = answers_of([await verify_greedily(asked, {"edit": tuple(requests)})])
    known = {request.request_id: next(iter(said[Prompt("edit", request.request_id)])) for request in requests}
    long = sorted(requests, key=lambda request: -len(known[request.request_id].token_ids))[:count]
    return {"edit": tuple(long), "edit, stopped": tuple(_stopped(r, known[r.request_id]) for r in long)}


def _stopped(request: TraceRequest, answer: Answer) -> TraceRequest:
    middle = len(answer.text) // 2
    return request.model_copy(update={"stop": (answer.text[middle : middle + 3],)})


async def defect_rows(pair: Pair, position: int, seeds: int) -> AsyncGenerator[Row]:
    """Each defect through the proxy: a certain one once, a random one once for each seed."""
    for defect in (replace(defect, position=position) for defect in CERTAIN):
        yield _certain_row(pair, defect, *await pair.examined(defect))
    at_times = [Defect(Kind.TOKEN_SWAPPED, chance=CHANCE, position=position, seed=seed) for seed in range(seeds)]
    found = [(await pair.examined(defect))[0].defects for defect in at_times]
    what = f"{pair.reference.arm}: {Kind.TOKEN_SWAPPED} at {position} in {CHANCE:.0%} of requests"
    yield caught(what, Share(sum(n > 0 for n in found), seeds), POWER, f" runs; prompts: {found}")


def _certain_row(pair: Pair, defect: Defect, found: Examined, requests: int) -> Row:
    beside = " beside others" * defect.only_concurrent
    classes = ", ".join(f"{count} {kind}" for kind, count in found.correctness.classes.items()) or "no difference"
    words = f"{classes}; of {found.correctness.compared} prompts, {requests} requests through the proxy"
    at = f" at {defect.position}" * (defect.kind is Kind.TOKEN_SWAPPED)
    right = found.defects > 0 and bool(found.correctness.broken)
    return Row(f"{pair.reference.arm}: {defect.kind}{at}{beside}", words, "SPEC_DEFECT", right)


def clean_row(what: str, found: Examined) -> Row:
    """Of a proxy that spoils nothing."""
    classes = ", ".join(f"{count} {kind}" for kind, count in found.correctness.classes.items()) or "none differs"
    return Row(what, f"{found.correctness.compared} prompts: {classes}", "no defect", not found.correctness.broken)


def alarm_row(
    manifest: Manifest, arm: str, name: str, *, blocks: Sequence[Block], again: Block, comparisons: int
) -> Row:
    """Half of the prompts at a time, over two processes of target-only."""
    chance, accused = random.Random(name), 0
    every = sorted({(a.workload, a.request_id) for a in blocks[0][BASELINE_ARM].answers})
    for _ in range(comparisons):
        drawn = frozenset(chance.sample(every, len(every) // 2))
        parts = [{arm: _part(record, drawn) for arm, record in block.items()} for block in blocks]
        correctness, _ = judged(manifest, arm, parts, [again] if again else [])
        accused += bool(correctness.broken)
    return alarms(f"greedy A/A, {name}, {len(every) // 2} prompts drawn each", Share(accused, comparisons), DECLARED)


def _part(record: VerificationRecord, drawn: frozenset[tuple[str, str]]) -> VerificationRecord:
    kept = tuple(answer for answer in record.answers if (answer.workload, answer.request_id) in drawn)
    return record.model_copy(update={"answers": kept})
