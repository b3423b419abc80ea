import pytest

from worker.cores import CoreSplit


@pytest.mark.parametrize(("client", "alone"), [((3,), True), ((0,), False), ((2, 3), False)])
def test_a_client_is_alone_where_the_engine_does_not_compute(client: tuple[int, ...], alone: bool) -> None:
    assert CoreSplit(engine=(0, 1, 2), engine_tree=(0, 1, 2, 3), client=client).client_is_alone is alone
