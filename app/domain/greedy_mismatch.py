"""A mismatch as it is listed: where the answers part, by how much, what it means and what was re-run."""

from typing import Final

from pydantic import BaseModel, ConfigDict

from app.domain.greedy import Answer, Departure, common_tokens
from app.domain.greedy_cases import Diagnosed, Rerun
from app.domain.greedy_classes import MismatchClass
from app.domain.greedy_tables import GreedyMode
from app.domain.verified import Alternative

TOKENS_AROUND: Final = 8
ALTERNATIVES_LISTED: Final = 5


class AnsweredAgain(BaseModel):
    """One answer of a fresh server to a mismatched request."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    block: int
    arm: str
    mode: str
    repeat: int
    is_baselines: bool
    """Whether it is, to the last token, target-only's answer of the comparison."""
    is_arms: bool
    first_divergence: int
    """Tokens in common with target-only's answer of the comparison."""
    tokens: int
    finish: str | None


class Mismatch(BaseModel):
    """One request whose greedy answer differs from target-only's in the same block."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    block: int
    arm: str
    mode: GreedyMode
    workload: str
    load: str | None
    """``None`` of a verified answer."""
    request_id: str
    first_divergence: int
    """Index of the first token that differs; the token lists show its surroundings."""
    baseline_tokens: tuple[int, ...]
    arm_tokens: tuple[int, ...]
    baseline_text: str
    arm_text: str
    baseline_finish: str | None
    arm_finish: str | None
    mismatch_class: MismatchClass
    words: str
    """The class for a reader, or why there is none."""
    place: int | None = None
    """Index of the token on which the class rests: there the arm leaves every answer of target-only."""
    expected_token: int | None = None
    arm_token: int | None = None
    gap_nats: float | None = None
    gap_is_bound: bool = False
    """The arm's token is not among the target's alternatives: the gap is this or larger."""
    tolerance_nats: float | None = None
    raw_logits: bool = False
    """Whether the logits were read as such; if not, their magnitude is assumed."""
    alternatives: tuple[Alternative, ...] = ()
    """The target's most probable tokens at ``place``."""
    token_texts: dict[int, str] = {}
    reruns: tuple[AnsweredAgain, ...] = ()


def mismatch_of(arm: str, found: Diagnosed) -> Mismatch:
    """The listed form of a diagnosed difference."""
    difference, diagnosis = found.difference, found.diagnosis
    target, ours = difference.target, difference.arm
    first = common_tokens(target.token_ids, ours.token_ids)
    left, gap = diagnosis.departure, diagnosis.gap
    listed = tuple(diagnosis.alternatives)[:ALTERNATIVES_LISTED]
    mismatch = Mismatch(
        block=difference.block,
        arm=arm,
        mode=difference.mode,
        workload=difference.prompt.workload,
        load=difference.load,
        request_id=difference.prompt.request_id,
        first_divergence=first,
        baseline_tokens=_around(target, first),
        arm_tokens=_around(ours, first),
        baseline_text=target.text,
        arm_text=ours.text,
        baseline_finish=target.finish_reason,
        arm_finish=ours.finish_reason,
        mismatch_class=diagnosis.mismatch_class,
        words=diagnosis.words,
        place=None if left is None else len(left.beginning),
        expected_token=None if left is None else _expected(left, listed),
        arm_token=None if left is None else left.token,
        gap_nats=None if gap is None else gap.nats,
        gap_is_bound=gap is not None and gap.is_bound,
        tolerance_nats=diagnosis.tolerance,
        raw_logits=found.raw_logits,
        alternatives=listed,
        reruns=tuple(_again(rerun, target, ours) for rerun in found.reruns),
    )
    return mismatch.model_copy(update={"token_texts": _texts(mismatch, found.token_texts)})


def _around(answer: Answer, place: int) -> tuple[int, ...]:
    return answer.token_ids[max(place - TOKENS_AROUND, 0) : place + TOKENS_AROUND]


def _expected(left: Departure, alternatives: tuple[Alternative, ...]) -> int | None:
    """Of several tokens that the target chose there, its most probable one."""
    chosen = [a.token_id for a in alternatives if a.token_id in left.expected]
    return next(iter(chosen), min((t for t in left.expected if t is not None), default=None))


def _again(rerun: Rerun, target: Answer, ours: Answer) -> AnsweredAgain:
    return AnsweredAgain(
        block=rerun.block,
        arm=rerun.arm,
        mode=rerun.mode,
        repeat=rerun.repeat,
        is_baselines=rerun.answer == target,
        is_arms=rerun.answer == ours,
        first_divergence=common_tokens(target.token_ids, rerun.answer.token_ids),
        tokens=len(rerun.answer.token_ids),
        finish=rerun.answer.finish_reason,
    )


def _texts(mismatch: Mismatch, known: dict[int, str]) -> dict[int, str]:
    shown = {*mismatch.baseline_tokens, *mismatch.arm_tokens, *(a.token_id for a in mismatch.alternatives)}
    return {token: known[token] for token in sorted(shown) if token in known}
