"""The scores of one recorded run. Called when its replay is over, so that scoring disturbs no timing of its own host.

Answers that are programs run on the client's cores, which have nothing to do meanwhile.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from app.domain.observation import RequestObservation
from app.domain.scored import complete, questions_of, scores_of
from app.domain.scoring.programs import code_of
from app.domain.scoring.question import Question
from app.domain.scoring.registry import is_pure, lack_of, version_of
from app.domain.scoring.terms import TIMEOUT_S, Quality
from app.domain.trace_request import TraceRequest
from worker.scoring.sandbox import SandboxUnfit, run_tests

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Scored:
    """``scorer`` is ``None`` where nothing is declared, or the answers could not be scored here."""

    scorer: str | None = None
    scores: Mapping[str, float] = field(default_factory=dict[str, float])


async def score_run(
    quality: Quality | None,
    requests: Sequence[TraceRequest],
    observations: Sequence[RequestObservation],
    cores: Sequence[int],
) -> Scored:
    """Score every complete answer of the declared sample."""
    if quality is None:
        return Scored()
    questions = questions_of(requests, quality)
    lacking = next((f"{name} has no {lack}" for name, q in questions.items() if (lack := lack_of(q, quality))), None)
    if lacking is not None:
        log.warning("answers not scored", scorer=quality.scorer, why=lacking)
        return Scored()
    if is_pure(quality):
        return Scored(version_of(quality), await asyncio.to_thread(scores_of, quality, questions, observations))
    return await _run_programs(quality, questions, observations, cores)


async def _run_programs(
    quality: Quality,
    questions: Mapping[str, Question],
    observations: Sequence[RequestObservation],
    cores: Sequence[int],
) -> Scored:
    """One after the other, each in a thread of its own, so that a lost lease ends it between two answers."""
    scores: dict[str, float] = {}
    lacking: dict[str, str] = {}
    timeout_s = quality.timeout_s or TIMEOUT_S
    for answer in complete(observations, questions):
        tests = questions[answer.request_id].tests or ""
        try:
            ran = await asyncio.to_thread(run_tests, code_of(answer.text), tests, timeout_s=timeout_s, cores=cores)
        except SandboxUnfit as unfit:
            log.warning("answers not scored", scorer=quality.scorer, why=str(unfit))
            return Scored()
        scores[answer.request_id] = float(ran.passed)
        lacking |= ran.lacking
    return Scored(_confined(version_of(quality), lacking), scores)


def _confined(version: str, lacking: Mapping[str, str]) -> str:
    """The record says what the programs were not confined by."""
    return f"{version}, without {', '.join(sorted(lacking))}" if lacking else version
