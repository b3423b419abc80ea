import pytest

from app.domain.retry import ATTEMPTS_MAX, is_retried, may_retry, retry_delay_s
from app.domain.vocabulary import FailureClass


@pytest.mark.parametrize("failure_class", FailureClass)
def test_only_what_this_service_or_its_host_broke_is_tried_again(failure_class: FailureClass) -> None:
    assert is_retried(failure_class) is (failure_class is FailureClass.INFRA)


@pytest.mark.parametrize("failure_class", sorted(set(FailureClass) - {FailureClass.INFRA}))
def test_a_finding_about_an_arm_is_never_repeated_until_it_works(failure_class: FailureClass) -> None:
    assert not any(may_retry(failure_class, attempt) for attempt in range(1, ATTEMPTS_MAX + 1))


def test_there_are_three_attempts_the_first_one_included() -> None:
    tried = [attempt for attempt in range(1, 10) if may_retry(FailureClass.INFRA, attempt)]
    assert tried == [1, 2]


def test_each_attempt_waits_longer_and_the_delay_never_runs_out() -> None:
    assert [retry_delay_s(attempt) for attempt in (1, 2, 3)] == [5.0, 30.0, 30.0]
