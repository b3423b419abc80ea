"""Do a bundle's scores follow from its answers? Computed again wherever the scorer is pure.

Programs are not run again: what a bundle holds is a stranger's, and their scores are taken as the worker recorded them.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from app.bundle.contents import Contents, read_trace
from app.bundle.index import RUNS, name_of
from app.domain.evidence import RunEvidence
from app.domain.scored import complete, questions_of, scores_of
from app.domain.scoring.question import Question
from app.domain.scoring.registry import is_pure, lack_of, version_of
from app.domain.scoring.terms import Quality
from app.domain.vocabulary import WARMUP

NAMED_MAX: Final = 3


def score_problems(directory: Path, contents: Contents) -> Iterator[str]:
    """Every run whose scores are not those of its answers, with the requests."""
    for workload in contents.manifest.workloads:
        if workload.quality is not None:
            questions = _questions(directory, workload.trace, workload.quality)
            for run in contents.evidence().runs:
                if run.workload == workload.name:
                    yield from _of_run(run, workload.quality, questions.get(run.load, {}))


def _questions(directory: Path, trace: str, quality: Quality) -> Mapping[str, Mapping[str, Question]]:
    """Load → request id → question."""
    requests = [request for request in read_trace(directory, trace).requests if request.load != WARMUP]
    loads = dict.fromkeys(request.load for request in requests)
    return {load: questions_of([r for r in requests if r.load == load], quality) for load in loads}


def _of_run(run: RunEvidence, quality: Quality, questions: Mapping[str, Question]) -> Iterator[str]:
    if run.scorer is None:
        if run.scores:
            yield f"{RUNS}: {name_of(run)}: it has scores, and nothing that gave them"
        return
    version = version_of(quality)
    if run.scorer.partition(",")[0] != version:
        yield f"{RUNS}: {name_of(run)}: its answers were scored by {run.scorer}, and this is {version}"
        return
    answered = {o.request_id for o in complete(run.observations, questions)}
    if apart := answered ^ run.scores.keys():
        yield f"{RUNS}: {name_of(run)}: {_named(apart)} has a score and no answer, or none and one"
    elif any(lack_of(question, quality) for question in questions.values()):
        yield f"{RUNS}: {name_of(run)}: it has scores that its trace allows none of"
    elif is_pure(quality):
        again = scores_of(quality, questions, run.observations)
        if unlike := [name for name in again if again[name] != run.scores[name]]:
            yield f"{RUNS}: {name_of(run)}: the score of {_named(unlike)} does not follow from the answer's text"


def _named(requests: set[str] | list[str]) -> str:
    ordered = sorted(requests)
    more = f" and {len(ordered) - NAMED_MAX} more" if len(ordered) > NAMED_MAX else ""
    return f"request {', '.join(ordered[:NAMED_MAX])}{more}"
