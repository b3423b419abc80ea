"""Mismatches for readers: what each class means, where a mismatch has its page, and the tokens side by side there."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Annotated, Self
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field

from app.domain.errors import FieldProblem, NotFound
from app.domain.greedy_classes import MismatchClass
from app.domain.greedy_mismatch import TOKENS_AROUND, Mismatch
from app.domain.greedy_tables import GreedyMode
from app.domain.report import Report
from app.domain.trace_request import RequestId
from app.domain.vocabulary import Name

MISMATCHES_SHOWN = 50

CLASS_WORDS = {
    MismatchClass.SPEC_DEFECT: "a defect: the arm's answers are not the target's",
    MismatchClass.NOT_DIAGNOSED: "not diagnosed",
    MismatchClass.NEAR_TIE: "a near tie: two tokens were equally good",
    MismatchClass.BATCH_EFFECT: "an effect of batching: not there when asked alone",
    MismatchClass.NONDETERMINISM: "target-only is not repeatable here",
}
MODE_WORDS = {
    GreedyMode.TIMED: "in the measured runs",
    GreedyMode.CONCURRENT: "verified, several at once",
    GreedyMode.SINGLE: "verified, one at a time",
}


class MismatchQuery(BaseModel):
    """What tells one mismatch from the others; ``block`` counts from 1, as pages say it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    arm: Name
    block: Annotated[int, Field(ge=1)]
    mode: GreedyMode
    workload: Name
    request_id: RequestId

    @classmethod
    def of(cls, mismatch: Mismatch) -> Self:
        """The query of a listed mismatch."""
        return cls(
            arm=mismatch.arm,
            block=mismatch.block + 1,
            mode=mismatch.mode,
            workload=mismatch.workload,
            request_id=mismatch.request_id,
        )


def address(experiment: str, mismatch: Mismatch) -> str:
    """The page of a mismatch of the experiment at this address."""
    return f"{experiment}/mismatch?{urlencode(MismatchQuery.of(mismatch).model_dump(mode='json'))}"


@dataclass(frozen=True, slots=True)
class TokenCell:
    """One token of one answer: its text where it is known, and its id; ``None`` where the answer has ended."""

    token_id: int | None
    text: str | None

    @property
    def label(self) -> str:
        """What is shown; white space is made visible."""
        if self.token_id is None:
            return "end"
        return str(self.token_id) if self.text is None else repr(self.text)


@dataclass(frozen=True, slots=True)
class TokenPair:
    """One place of two token sequences."""

    index: int
    baseline: TokenCell
    arm: TokenCell

    @property
    def differs(self) -> bool:
        return self.baseline.token_id != self.arm.token_id


def shown_mismatches(report: Report) -> Sequence[Mismatch]:
    """The gravest first, as the report has them."""
    return report.mismatches[:MISMATCHES_SHOWN]


def find(report: Report, asked: MismatchQuery) -> Mismatch:
    """Raises ``NotFound`` where the report lists no such mismatch."""
    for mismatch in report.mismatches:
        if MismatchQuery.of(mismatch) == asked:
            return mismatch
    problem = "the report lists no such mismatch; the gravest are listed"
    raise NotFound(FieldProblem("request_id", problem, "choose one from the compare page"))


def token_window(mismatch: Mismatch) -> tuple[TokenPair, ...]:
    """The tokens around the first divergence, side by side, with their indices in the answer."""
    start = max(mismatch.first_divergence - TOKENS_AROUND, 0)
    texts = mismatch.token_texts

    def cell(token: int | None) -> TokenCell:
        return TokenCell(token, None if token is None else texts.get(token))

    pairs = zip_longest(mismatch.baseline_tokens, mismatch.arm_tokens)
    return tuple(TokenPair(i, cell(baseline), cell(arm)) for i, (baseline, arm) in enumerate(pairs, start))


def alternatives(mismatch: Mismatch) -> tuple[tuple[TokenCell, float], ...]:
    """The target's most probable tokens at the place on which the class rests."""
    texts = mismatch.token_texts
    return tuple((TokenCell(a.token_id, texts.get(a.token_id)), a.logit) for a in mismatch.alternatives)


WORDS: dict[str, object] = {"class_words": CLASS_WORDS, "mode_words": MODE_WORDS, "mismatch_address": address}
"""What templates need beside the mismatches themselves."""
