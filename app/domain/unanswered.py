"""Prompts of the verification phase that target-only answered and an arm never did: no answer is no equal one."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from app.domain.evidence import SessionEvidence
from app.domain.greedy import Prompt
from app.domain.greedy_tables import VERIFIED_MODES
from app.domain.verified import VerifiedAnswer
from app.domain.vocabulary import BASELINE_ARM


class Unanswered(NamedTuple):
    """How much of what target-only answered greedily an arm failed to answer, over all blocks."""

    expected: int
    """Prompts that target-only answered and the arm was asked."""
    prompts: int
    """Of those, without any answer of the arm, in either mode and in any block."""
    failures: int
    """Requests of the arm that failed, those to prompts that it answered at another time too."""
    why: str
    """The first failure; empty where there is none."""


def unanswered(sessions: Sequence[SessionEvidence], arm: str) -> Unanswered:
    """Compare by prompt; what target-only did not answer either is nothing that the arm did."""
    targets = {_prompt(given) for given in _greedy(sessions, BASELINE_ARM) if given.error is None}
    asked = [given for given in _greedy(sessions, arm) if _prompt(given) in targets]
    expected = {_prompt(given) for given in asked}
    answered = {_prompt(given) for given in asked if given.error is None}
    errors = [given.error for given in asked if given.error is not None]
    return Unanswered(len(expected), len(expected - answered), len(errors), errors[0] if errors else "")


def _greedy(sessions: Sequence[SessionEvidence], arm: str) -> Iterator[VerifiedAnswer]:
    for session in sessions:
        if session.arm == arm and session.verification is not None:
            yield from (given for given in session.verification.answers if given.mode in VERIFIED_MODES.values())


def _prompt(given: VerifiedAnswer) -> Prompt:
    return Prompt(given.workload, given.request_id)
