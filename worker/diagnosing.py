"""The end of a block: what its arms answered differently is asked again, of fresh servers that measure nothing.

An attempt that resumes a block diagnoses anew, since only its own diagnosing sessions count for it.
"""

from collections.abc import Mapping
from functools import partial

import structlog

from app.domain.evidence import label_of
from app.domain.greedy import Answer, Prompt
from app.domain.greedy_tables import GreedyEvidence, heard, tallies
from app.domain.verified import VerificationRecord
from app.domain.vocabulary import BASELINE_ARM
from app.verification.repository import VerificationRepository
from worker.bench import Bench, RunFailed
from worker.measurement import Serving, cause_of_end
from worker.session import conduct_diagnosis
from worker.verification.diagnosis import (
    Asked,
    answer_again,
    answer_and_choose,
    answers_of,
    choose_again,
    requests_of,
)
from worker.verification.phase import asker_of, watched

log = structlog.get_logger()

Heard = dict[Prompt, set[Answer]]


async def diagnose_block(bench: Bench) -> None:
    """Start no server where every answer was target-only's; else one of each mismatching arm, and target-only's last.

    The target is asked last, so that it can be asked about every place where any arm ever left it.
    """
    evidence = await _evidence(bench)
    candidates = [arm.name for arm in bench.manifest.candidates if not arm.as_deployed]
    asked = {name: _differing(bench, evidence, name) for name in candidates}
    asked = {arm: one for arm, one in asked.items() if one.prompts}
    if not asked:
        return
    log.info("answers differ and are asked again", prompts={arm: len(one.prompts) for arm, one in asked.items()})
    others = await _ask_arms(bench, evidence, asked)
    if others:
        await _ask_target(bench, evidence, others, position=len(bench.manifest.arms) + len(asked))


async def _evidence(bench: Bench) -> GreedyEvidence:
    block, manifest = bench.recorder.block, bench.manifest
    async with bench.recorder.database.transaction() as session:
        repository = VerificationRepository(session)
        sessions = await repository.sessions(block.id)
        runs = await repository.runs(block.id) if manifest.sampling.temperature == 0 else ()
    return GreedyEvidence(manifest, sessions, runs, _sampled(bench))


def _sampled(bench: Bench) -> frozenset[Prompt]:
    """Requests that sample by themselves, of traces that are greedy otherwise."""
    if bench.manifest.sampling.temperature:
        return frozenset()
    return frozenset(
        Prompt(workload, request.request_id)
        for workload, trace in bench.traces.items()
        for load in trace.header.loads
        for request in trace.of_load(load.name)
        if label_of(request).is_sampled
    )


def _differing(bench: Bench, evidence: GreedyEvidence, arm: str) -> Asked:
    found = tallies(evidence, arm).values()
    seed = f"{bench.manifest.schedule_seed} diagnosis {bench.block_index} {arm}"
    return choose_again((d.prompt for tally in found for d in tally.differences), seed)


async def _ask_arms(bench: Bench, evidence: GreedyEvidence, asked: Mapping[str, Asked]) -> Heard:
    """Each arm's fresh server; every answer of those that could be asked, to the prompts that they were asked."""
    others: Heard = {}
    for position, (arm, one) in enumerate(asked.items(), start=len(bench.manifest.arms)):
        records: list[VerificationRecord] = []
        await conduct_diagnosis(bench, arm, position, partial(_answer_again, bench, one, records))
        known = heard(evidence, arm, frozenset(one.prompts))
        for prompt, answers in answers_of(records).items():
            others.setdefault(prompt, set()).update(answers, *known[prompt].values())
    return others


async def _answer_again(bench: Bench, one: Asked, records: list[VerificationRecord], serving: Serving) -> None:
    asker = asker_of(bench, serving)
    prompts = requests_of(bench.traces, one.prompts)
    record = await watched(bench, serving, answer_again(asker, prompts))
    records.append(record.model_copy(update={"left_out": one.left_out}))
    await _keep(bench, serving, records[-1])


async def _ask_target(bench: Bench, evidence: GreedyEvidence, others: Heard, *, position: int) -> None:
    known = heard(evidence, BASELINE_ARM, frozenset(others))
    targets = {prompt: set[Answer]().union(*answers.values()) for prompt, answers in known.items()}

    async def work(serving: Serving) -> None:
        prompts = requests_of(bench.traces, list(others))
        asking = answer_and_choose(asker_of(bench, serving), prompts, others, targets, raw_logits=bench.can_tell_logits)
        await _keep(bench, serving, await watched(bench, serving, asking))

    await conduct_diagnosis(bench, BASELINE_ARM, position, work)


async def _keep(bench: Bench, serving: Serving, record: VerificationRecord) -> None:
    """What was answered is recorded also where the engine did not survive it."""
    await bench.recorder.record_verification(serving.session_id, record)
    if dead := cause_of_end(serving.server):
        raise RunFailed(dead)
