"""What failed, the same failures together, each with something to do."""

from uuid import uuid4

from app.domain.evidence import Failure
from app.domain.lifecycle import RunState, SessionState
from app.domain.vocabulary import FailureClass
from app.experiments.schemas import FailureRead
from app.pages.failing import ADVICE, NOT_SHOWN, PLACES_MAX, failure_groups
from app.runs.schemas import RunRead, SessionRead

DEAD = Failure(failure_class=FailureClass.ENGINE_DEAD, message="the engine ended")
LATE = Failure(failure_class=FailureClass.GENERATOR_LIMITED, message="the client was late")


def session(block: int, failure: Failure | None, arm: str = "ngram-k4") -> SessionRead:
    return SessionRead.model_construct(id=uuid4(), block=block, arm=arm, state=SessionState.FAILED, failure=failure)


def run(block: int, failure: Failure | None) -> RunRead:
    return RunRead.model_construct(
        id=uuid4(), session_id=uuid4(), block=block, arm="ngram-k4", workload="tasks", load="low", failure=failure,
        state=RunState.FAILED, attempt=1,
    )  # fmt: skip


def test_every_class_that_is_shown_has_something_to_do() -> None:
    assert set(ADVICE) | NOT_SHOWN == set(FailureClass)
    assert all(advice.meaning.endswith(".") and advice.action.endswith(".") for advice in ADVICE.values())


def test_the_same_failure_of_an_arm_is_said_once_with_its_places() -> None:
    many = [session(block, DEAD) for block in range(PLACES_MAX + 3)]
    (group, other) = failure_groups([*many, session(0, DEAD, "draft-k4"), session(1, None)], [], [])
    assert (len(group.places), group.further) == (PLACES_MAX, 3)
    assert [place.arm for place in other.places] == ["draft-k4"]


def test_a_void_replay_is_no_failure_of_the_arm_and_comes_last() -> None:
    groups = failure_groups([session(0, DEAD)], [run(0, LATE)], [])
    assert [(g.failure_class, g.is_void) for g in groups] == [
        (FailureClass.ENGINE_DEAD, False),
        (FailureClass.GENERATOR_LIMITED, True),
    ]


def test_a_block_that_failed_by_itself_is_said_too_and_once() -> None:
    disk = FailureRead(where="block 2", failure_class=FailureClass.INFRA, message="no space left")
    of_session = FailureRead(where="block 1/ngram-k4", failure_class=FailureClass.ENGINE_DEAD, message=DEAD.message)
    canceled = FailureRead(where="block 3", failure_class=FailureClass.CANCELED, message="canceled on request")
    groups = failure_groups([session(0, DEAD)], [], [disk, of_session, canceled])
    assert [(g.failure_class, g.where) for g in groups] == [
        (FailureClass.ENGINE_DEAD, ""),
        (FailureClass.INFRA, "block 2"),
    ]
