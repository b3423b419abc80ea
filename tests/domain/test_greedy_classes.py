"""The classes of a mismatch, from what was re-run and how close the target's tokens lie."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.greedy import Answer, batch_tolerance, departure, forks, gap_of, tie_tolerance, ulp
from app.domain.greedy_classes import SEVERITY, Case, MismatchClass, classify
from app.domain.verified import Alternative

TOP = 20.0
RIGHT = Answer((1, 2, 3, 4, 5), "length", "abcde")
WRONG = Answer((1, 2, 9, 4, 5), "length", "abxde")
M = MismatchClass


def choice(gap: float, *, between: float | None = None) -> tuple[Alternative, ...]:
    """The target prefers 3 to 9 by ``gap``; ``between``: another token, so far below 3."""
    other = () if between is None else (Alternative(token_id=7, logit=TOP - between),)
    found = (Alternative(token_id=3, logit=TOP), *other, Alternative(token_id=9, logit=TOP - gap))
    return (*found, Alternative(token_id=8, logit=TOP - gap - 10))


def case(gap: float = 5.0, **changes: object) -> Case:
    """The arm put 9 for 3, singly too, in bfloat16: a step of 1/8 at this logit."""
    facts = Case(
        answer=WRONG,
        targets=frozenset({RIGHT}),
        elsewhere=frozenset({RIGHT}),
        target_singles=(RIGHT,) * 3,
        arm_singles=(WRONG,) * 3,
        choices={(1, 2): choice(gap)},
        dtype="bfloat16",
        raw_logits=True,
    )
    return facts._replace(**changes)  # pyright: ignore[reportArgumentType]


SINGLY_EQUAL: dict[str, object] = {"arm_singles": (RIGHT,) * 3}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (case(5.0), M.SPEC_DEFECT),
        (case(0.25), M.NEAR_TIE),
        (case(0.0), M.NEAR_TIE),
        (case(0.26), M.SPEC_DEFECT),
        (case(0.25, choices={(1, 2): choice(0.25, between=0.1)}), M.SPEC_DEFECT),
        (case(1.0, **SINGLY_EQUAL), M.BATCH_EFFECT),
        (case(1.01, **SINGLY_EQUAL), M.SPEC_DEFECT),
        (case(elsewhere=frozenset({WRONG})), M.NONDETERMINISM),
        (case(targets=frozenset({RIGHT, WRONG})), M.NONDETERMINISM),
        (case(why_not="left out", is_left_out=True), M.NOT_DIAGNOSED),
        (case(choices={}), M.NOT_DIAGNOSED),
        (case(arm_singles=()), M.NOT_DIAGNOSED),
    ],
)
def test_the_class_follows_from_the_re_runs_and_the_gap(found: Case, expected: MismatchClass) -> None:
    diagnosis = classify(found)
    assert diagnosis.mismatch_class is expected
    assert diagnosis.words


@pytest.mark.parametrize(
    "other",
    [
        RIGHT._replace(token_ids=RIGHT.token_ids[:-1]),
        RIGHT._replace(token_ids=(*RIGHT.token_ids, 6)),
        RIGHT._replace(finish_reason="stop"),
        RIGHT._replace(text="abcde</s>"),
    ],
    ids=["last token dropped", "one token more", "another reason", "a stop string leaked"],
)
def test_another_ending_is_a_defect_unless_target_only_ends_so_too(other: Answer) -> None:
    alone = case(answer=other, arm_singles=(other,), why_not="nothing was re-run")
    assert classify(alone).mismatch_class is M.SPEC_DEFECT
    same = case(answer=other, elsewhere=frozenset({RIGHT, other}))
    assert classify(same).mismatch_class is M.NONDETERMINISM


def test_a_defect_does_not_hide_behind_a_target_that_wavers() -> None:
    wavering = frozenset({RIGHT, RIGHT._replace(token_ids=(1, 2, 3, 4, 6))})
    own = (Alternative(token_id=5, logit=TOP), Alternative(token_id=6, logit=TOP - 0.1))
    choices = {(1, 2): choice(5.0), (1, 2, 3, 4): own}
    assert classify(case(targets=wavering, choices=choices)).mismatch_class is M.SPEC_DEFECT
    near = {**choices, (1, 2): choice(0.9)}
    assert classify(case(targets=wavering, choices=near)).mismatch_class is M.NONDETERMINISM


def test_a_target_that_wavers_by_as_much_is_to_blame_itself() -> None:
    """Its own two tokens lie 6 apart, so an arm that is 5 off has done nothing that the target does not do."""
    wavering = frozenset({RIGHT, RIGHT._replace(token_ids=(1, 2, 3, 4, 6))})
    own = (Alternative(token_id=5, logit=TOP), Alternative(token_id=6, logit=TOP - 6))
    found = classify(case(targets=wavering, choices={(1, 2): choice(5.0), (1, 2, 3, 4): own}))
    assert found.mismatch_class is M.NONDETERMINISM


def test_the_worst_of_the_single_answers_counts() -> None:
    """Under load only a near token was exchanged; asked alone the arm puts a far one in another place."""
    worse = Answer((1, 2, 3, 9, 5), "length", "abcxe")
    choices = {(1, 2): choice(0.1), (1, 2, 3): (Alternative(token_id=4, logit=TOP), Alternative(token_id=9, logit=1.0))}
    found = classify(case(arm_singles=(worse,), choices=choices))
    assert found.mismatch_class is M.SPEC_DEFECT
    assert found.departure is not None
    assert found.departure.beginning == (1, 2, 3)


def test_a_token_beyond_the_alternatives_is_further_off_than_all_of_them() -> None:
    few = (Alternative(token_id=3, logit=TOP), Alternative(token_id=8, logit=TOP - 0.01))
    found = classify(case(choices={(1, 2): few}))
    assert found.mismatch_class is M.SPEC_DEFECT
    assert found.gap is not None
    assert found.gap.is_bound


def test_without_logits_the_magnitude_is_assumed() -> None:
    low = tuple(a.model_copy(update={"logit": a.logit - TOP}) for a in choice(0.25))
    found = classify(case(choices={(1, 2): low}, raw_logits=False))
    assert (found.mismatch_class, found.tolerance) == (M.NEAR_TIE, 0.25)


@pytest.mark.parametrize(
    ("magnitude", "dtype", "expected"),
    [(16.0, "bfloat16", 0.125), (31.9, "bfloat16", 0.125), (32.0, "bfloat16", 0.25), (20.0, "float16", 2**-6)],
)
def test_steps_of_a_number_format(magnitude: float, dtype: str, expected: float) -> None:
    assert ulp(magnitude, dtype) == expected
    assert tie_tolerance(magnitude, dtype) == 2 * expected
    assert batch_tolerance(magnitude, dtype) == 8 * expected


TOKENS = st.lists(st.integers(0, 2), max_size=6).map(tuple)
ANSWERS = st.builds(Answer, TOKENS, st.sampled_from(["stop", "length"]), st.sampled_from(["", "x"]))


@given(ANSWERS, st.sets(ANSWERS, min_size=1, max_size=4))
def test_an_answer_departs_exactly_where_no_target_goes_along(answer: Answer, targets: set[Answer]) -> None:
    left = departure(answer, targets)
    assert (left is None) == (answer in targets)
    if left is None:
        return
    place = len(left.beginning)
    assert answer.token_ids[:place] == left.beginning
    assert any(t.token_ids[:place] == left.beginning for t in targets)
    if left.token is not None:
        assert left.token not in left.expected
        assert not any(t.token_ids[: place + 1] == answer.token_ids[: place + 1] for t in targets)


@given(ANSWERS, st.sets(ANSWERS, min_size=1, max_size=4))
def test_every_place_on_which_a_class_may_rest_is_asked_about(answer: Answer, targets: set[Answer]) -> None:
    left = departure(answer, targets)
    if left is not None and not left.is_ending:
        assert left.beginning in forks([answer], targets)


@given(st.floats(0, 30), st.floats(0, 30), st.booleans(), st.sampled_from(["bfloat16", "float16", "float32"]))
def test_a_larger_gap_is_never_the_lesser_class(one: float, other: float, singly: bool, dtype: str) -> None:
    near, far = sorted((one, other))
    changes: dict[str, object] = {"dtype": dtype} | ({} if singly else SINGLY_EQUAL)
    classes = [classify(case(gap, **changes)).mismatch_class for gap in (near, far)]
    assert SEVERITY[classes[0]] <= SEVERITY[classes[1]]


@given(st.floats(-1e6, 1e6), st.floats(0, 100))
def test_the_gap_is_the_distance_to_the_targets_own_token(top: float, gap: float) -> None:
    left = departure(WRONG, [RIGHT])
    assert left is not None
    found = gap_of(
        left, (Alternative(token_id=3, logit=top), Alternative(token_id=9, logit=top - gap)), raw_logits=True
    )
    assert found.nats == top - (top - gap)
    assert not found.is_bound
