from uuid import UUID, uuid4

import pytest

from app.domain.condition import Condition
from app.domain.resume import GAP_MAX_S, EarlierSession, Resumption, resume
from app.domain.schedule import PlannedBlock, PlannedSession, plan
from app.domain.verified import VERIFIED_BLOCKS
from tests.domain.evidence_factory import make_manifest

BLOCK: PlannedBlock = plan(make_manifest(blocks=1))[0]
FIRST, SECOND = BLOCK.sessions
HERE = ("here/gpu-0", "here/gpu-1")


def earlier(planned: PlannedSession, measured: int = 0, **changes: object) -> EarlierSession:
    """A session of the attempt before that finished the first ``measured`` runs."""
    facts: dict[str, object] = {
        "id": uuid4(),
        "arm": planned.arm,
        "over": False,
        "succeeded": frozenset(planned.runs[:measured]),
        "idle_s": 10.0,
        "accelerators": HERE,
    }
    return EarlierSession(**{**facts, **changes})  # pyright: ignore[reportArgumentType]


def resumed(*sessions: EarlierSession, here: tuple[str, ...] = HERE, indivisible: tuple[str, ...] = ()) -> Resumption:
    return resume(BLOCK, sessions, accelerators=here, indivisible=indivisible)


def rest(resumption: Resumption) -> dict[str, list[str]]:
    """Arm → the loads that are still to be measured."""
    return {session.arm: [run.load for run in session.runs] for session in resumption.sessions}


WHOLE = {session.arm: ["low", "high"] for session in BLOCK.sessions}


def test_a_first_attempt_is_the_plan() -> None:
    assert resumed() == Resumption((), BLOCK.sessions)


def test_what_was_finished_counts_on_and_the_rest_keeps_its_order_and_place() -> None:
    over, half = earlier(FIRST, 2, over=True), earlier(SECOND, 1)
    found = resumed(half, over)
    assert found.restarted is None
    assert set(found.adopted) == {over.id, half.id}
    assert found.sessions == (PlannedSession(SECOND.arm, SECOND.position, SECOND.runs[1:]),)


def test_a_run_that_is_not_the_first_is_not_measured_twice_either() -> None:
    only_high = earlier(FIRST, succeeded=frozenset({FIRST.runs[1]}))
    assert rest(resumed(only_high)) == {FIRST.arm: ["low"], SECOND.arm: ["low", "high"]}


def test_a_session_that_measured_nothing_leaves_nothing() -> None:
    assert resumed(earlier(FIRST)) == Resumption((), BLOCK.sessions)


def test_a_failed_session_is_a_finding_and_is_not_tried_again() -> None:
    failed = earlier(FIRST, 0, over=True)
    found = resumed(failed)
    assert (found.adopted, rest(found)) == ((failed.id,), {SECOND.arm: ["low", "high"]})


def test_the_runs_of_two_interrupted_sessions_of_an_arm_add_up() -> None:
    parts = [earlier(FIRST, succeeded=frozenset({run}), verified=True) for run in FIRST.runs]
    found = resumed(*parts)
    assert set(found.adopted) == {part.id for part in parts}
    assert FIRST.arm not in rest(found)


def test_an_arm_whose_caches_learn_is_measured_whole_or_not_at_all() -> None:
    half, over = earlier(FIRST, 1), earlier(SECOND, 2, over=True)
    found = resumed(half, over, indivisible=(FIRST.arm, SECOND.arm))
    assert (found.adopted, rest(found)) == ((over.id,), {FIRST.arm: ["low", "high"]})


@pytest.mark.parametrize("idle_s", [GAP_MAX_S - 1, GAP_MAX_S])
def test_a_gap_that_a_healthy_block_may_have_is_allowed(idle_s: float) -> None:
    assert resumed(earlier(FIRST, 2, over=True, idle_s=idle_s)).restarted is None


def test_arms_that_would_lie_too_far_apart_are_all_measured_again() -> None:
    found = resumed(earlier(FIRST, 2, over=True, idle_s=GAP_MAX_S + 60))
    assert (found.adopted, rest(found)) == ((), WHOLE)
    assert found.restarted == "its arms would have lain 16 minutes apart, more than 15"


def test_the_gap_is_counted_from_what_was_measured_last() -> None:
    long_ago, just_now = earlier(FIRST, 2, over=True, idle_s=2000), earlier(SECOND, 1, idle_s=30)
    assert resumed(long_ago, just_now).restarted is None


def test_what_leaves_nothing_does_not_shorten_the_gap() -> None:
    found = resumed(earlier(FIRST, 2, over=True, idle_s=2000), earlier(SECOND, 0, idle_s=1))
    assert found.restarted is not None


@pytest.mark.parametrize("elsewhere", [HERE[:1], ("there/gpu-0", "there/gpu-1"), (*HERE, "here/gpu-2"), ()])
def test_arms_are_compared_on_the_same_accelerators_only(elsewhere: tuple[str, ...]) -> None:
    found = resumed(earlier(FIRST, 2, over=True), here=elsewhere)
    assert (found.adopted, rest(found)) == ((), WHOLE)
    assert "different accelerators" in str(found.restarted)


def test_the_order_in_which_accelerators_are_named_does_not_matter() -> None:
    assert resumed(earlier(FIRST, 2, over=True), here=HERE[::-1]).restarted is None


def test_where_everything_was_measured_nothing_is_left() -> None:
    found = resumed(*(earlier(session, 2, over=True) for session in BLOCK.sessions))
    assert found.sessions == ()
    assert len(found.adopted) == 2


def test_runs_of_one_arm_say_nothing_of_another() -> None:
    foreign = frozenset(Condition(SECOND.arm, run.workload, run.load) for run in FIRST.runs)
    assert rest(resumed(earlier(FIRST, succeeded=foreign))) == WHOLE


def test_a_resumption_is_a_value() -> None:
    same = UUID(int=1)
    assert resumed(earlier(FIRST, 1, id=same)) == resumed(earlier(FIRST, 1, id=same))


def test_an_arm_that_is_measured_and_not_verified_is_only_verified() -> None:
    found = resumed(earlier(FIRST, 2), earlier(SECOND, 2, verified=True))
    assert found.sessions == (PlannedSession(FIRST.arm, FIRST.position, ()),)


def test_a_later_block_verifies_nothing_again() -> None:
    later = plan(make_manifest(blocks=VERIFIED_BLOCKS + 1))[VERIFIED_BLOCKS]
    found = resume(later, [earlier(session, 2) for session in later.sessions], accelerators=HERE)
    assert found.sessions == ()
