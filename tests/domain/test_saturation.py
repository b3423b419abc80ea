import pytest

from app.domain.observation import RequestObservation
from app.domain.saturation import over_blocks, saturation_of
from app.domain.vocabulary import NS_PER_S, Outcome, Saturation

SERVICE_NS = NS_PER_S


def queue(arrivals: int, gap_s: float, service_s: float) -> list[RequestObservation]:
    """A single server, first come first served, constant gaps and services."""
    free, seen = 0.0, []
    for i in range(arrivals):
        due = i * gap_s
        free = max(free, due) + service_s
        end = round(free * NS_PER_S)
        seen.append(
            RequestObservation(
                request_id=str(i), outcome=Outcome.SUCCESS, due_ns=round(due * NS_PER_S), end_ns=end, chunk_ns=(end,)
            )
        )
    return seen


def test_a_server_that_keeps_up_is_stable() -> None:
    assert saturation_of(queue(100, 2.0, 1.0), service_ns=SERVICE_NS) is Saturation.STABLE


def test_a_growing_queue_is_saturated() -> None:
    assert saturation_of(queue(100, 0.8, 1.0), service_ns=SERVICE_NS) is Saturation.SATURATED


def test_a_few_requests_more_in_a_short_run_are_chance() -> None:
    assert saturation_of(queue(60, 0.85, 1.0), service_ns=SERVICE_NS) is Saturation.SUSPECT
    assert saturation_of(queue(100, 0.85, 1.0), service_ns=SERVICE_NS) is Saturation.SATURATED


def test_a_long_last_answer_is_no_queue() -> None:
    seen = queue(100, 2.0, 1.0)
    seen[-1] = seen[-1].model_copy(update={"end_ns": seen[-1].due_ns + 9 * NS_PER_S})
    assert saturation_of(seen, service_ns=SERVICE_NS) is Saturation.STABLE


def test_one_sign_alone_is_suspect() -> None:
    late = queue(100, 2.0, 1.0)
    late[-6:] = [o.model_copy(update={"end_ns": late[-1].due_ns + 2 * NS_PER_S}) for o in late[-6:]]
    assert saturation_of(late, service_ns=SERVICE_NS) is Saturation.SUSPECT


@pytest.mark.parametrize("service_ns", [None, 10 * NS_PER_S])
def test_a_short_run_is_undecided(service_ns: int | None) -> None:
    assert saturation_of(queue(100, 0.8, 1.0), service_ns=service_ns) is Saturation.UNDECIDED


def test_a_condition_is_saturated_only_in_most_blocks() -> None:
    saturated, stable = Saturation.SATURATED, Saturation.STABLE
    assert over_blocks([saturated] * 4 + [stable]) is saturated
    assert over_blocks([saturated] * 3 + [stable] * 2) is Saturation.SUSPECT
    assert over_blocks([stable] * 5) is stable
    assert over_blocks([stable, Saturation.UNDECIDED]) is Saturation.UNDECIDED
    assert over_blocks([]) is Saturation.UNDECIDED
    assert over_blocks([saturated]) is saturated
