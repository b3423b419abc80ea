"""Evidence of greedy answers by dials: who answered what, in which block, and what was asked again."""

from collections.abc import Iterable

from app.domain.evidence import ExperimentEvidence, Failure, SessionEvidence
from app.domain.greedy import Answer
from app.domain.verified import Alternative, ForcedChoice, VerificationMode, VerificationRecord, VerifiedAnswer
from app.domain.vocabulary import FailureClass
from tests.domain.evidence_factory import TOKENS, find_run, make_session, replace_run

ANSWER = Answer(tuple(range(TOKENS)), "length", "answer")
OTHER = ANSWER._replace(token_ids=(*ANSWER.token_ids[:12], 999, *ANSWER.token_ids[13:]))
THIRD = ANSWER._replace(token_ids=(*ANSWER.token_ids[:12], 777, *ANSWER.token_ids[13:]))
DIED = Failure(failure_class=FailureClass.ENGINE_DEAD, message="the engine died")


def answering(
    evidence: ExperimentEvidence, arm: str, block: int, answer: Answer, *, places: Iterable[int] = (0,)
) -> ExperimentEvidence:
    """Some requests of one low-load run answered differently."""
    run = find_run(evidence, arm=arm, block=block, load="low")
    changes = {"token_ids": answer.token_ids, "finish_reason": answer.finish_reason, "text": answer.text}
    changed = [o.model_copy(update=changes) if place in set(places) else o for place, o in enumerate(run.observations)]
    return replace_run(evidence, arm=arm, block=block, load="low", observations=tuple(changed))


def verified(mode: VerificationMode, request_id: str, answer: Answer, repeat: int = 0) -> VerifiedAnswer:
    """One answer of a server that was asked beside its runs."""
    return VerifiedAnswer(
        mode=mode,
        workload="copy",
        request_id=request_id,
        repeat=repeat,
        token_ids=answer.token_ids,
        text=answer.text,
        finish_reason=answer.finish_reason,
    )


def diagnosing(
    block: int,
    arm: str,
    answers: dict[str, Answer],
    *,
    gap: float | None = None,
    left_out: dict[str, str] | None = None,
    failure: Failure | None = None,
) -> SessionEvidence:
    """A fresh server that was asked these requests thrice alone; with ``gap`` it knows the place before token 12."""
    singles = (
        verified(VerificationMode.SINGLE, request_id, answer, repeat)
        for request_id, answer in answers.items()
        for repeat in range(3)
    )
    record = VerificationRecord(
        answers=tuple(singles),
        choices=() if gap is None else tuple(_choice(request_id, gap) for request_id in answers),
        raw_logits=True,
        left_out=left_out or {},
    )
    return make_session(block, arm, 2, diagnosing=True, verification=None if failure else record, failure=failure)


def _choice(request_id: str, gap: float) -> ForcedChoice:
    logits = {12: 20.0, 999: 20.0 - gap, 777: 20.0 - gap - 1, 5: 1.0}
    return ForcedChoice(
        workload="copy",
        request_id=request_id,
        beginning=ANSWER.token_ids[:12],
        alternatives=tuple(Alternative(token_id=token, logit=logit) for token, logit in logits.items()),
    )
