"""How checks are grouped for people: by arm, the worst first, what passes apart."""

from app.domain.preflight import Check, PreflightOutcome
from app.pages.checks import check_groups, tally


def check(outcome: PreflightOutcome, arm: str | None = None, name: str = "x") -> Check:
    return Check(name=name, arm=arm, field="f", outcome=outcome, reason="r")


def test_the_worst_comes_first_and_what_passes_is_apart() -> None:
    checks = [
        check(PreflightOutcome.PASS),
        check(PreflightOutcome.NOT_CHECKABLE, "a"),
        check(PreflightOutcome.PASS, "a"),
        check(PreflightOutcome.FAIL, "a", "tokenizer"),
    ]
    whole, of_arm = check_groups(checks)
    assert (whole.arm, whole.open, len(whole.passed)) == (None, (), 1)
    assert [c.outcome for c in of_arm.open] == [PreflightOutcome.FAIL, PreflightOutcome.NOT_CHECKABLE]
    assert of_arm.title == "a"


def test_the_tally_leaves_out_what_did_not_occur() -> None:
    counted = tally([check(PreflightOutcome.PASS), check(PreflightOutcome.FAIL), check(PreflightOutcome.PASS)])
    assert list(counted.items()) == [(PreflightOutcome.FAIL, 1), (PreflightOutcome.PASS, 2)]


def test_every_outcome_has_a_sign_of_its_own() -> None:
    assert len({outcome.sign for outcome in PreflightOutcome}) == len(PreflightOutcome)
