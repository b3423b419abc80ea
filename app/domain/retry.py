"""What is tried again, by the class of its failure, and what is not because trying again would flatter.

An engine that dies, hangs or runs out of memory is a finding about its arm, so it is recorded and never
repeated until it works. Only what this service or its host broke is measured again.
"""

from typing import Final

from app.domain.vocabulary import FailureClass

ATTEMPTS_MAX: Final = 3
"""Attempts at a block, the first one included."""
DELAYS_S: Final = (5.0, 30.0)
"""Before the second and the third attempt: a disk or a database that is away is given time to come back."""
_RETRIED: Final = frozenset({FailureClass.INFRA})


def is_retried(failure_class: FailureClass) -> bool:
    """Whether such a failure says nothing about the arm."""
    return failure_class in _RETRIED


def may_retry(failure_class: FailureClass, attempt: int) -> bool:
    """Whether a block whose ``attempt`` (from 1) ended so is queued again."""
    return is_retried(failure_class) and attempt < ATTEMPTS_MAX


def retry_delay_s(attempt: int) -> float:
    """Seconds until the attempt after ``attempt`` may begin."""
    return DELAYS_S[min(attempt, len(DELAYS_S)) - 1]
