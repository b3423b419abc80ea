"""One house for all rows of the matrix; each row finds it whole, and must leave an earlier experiment as it was."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.chaos.house import House, experiment

SLOW = {"step_ms": {"*": 60.0}}
"""A run takes a second, so that something can be done to it."""
TARGETS = {
    "plain": {},
    "slow": SLOW,
    "starting": {"faults": {"*": {"slow_start_s": 2.0}}},
    "warming": {"step_ms": {"*": 120.0}},
    "draining": {"faults": {"*": {"slow_stop_s": 2.0}}},
    "orphan": SLOW | {"faults": {"*": {"orphan": True}}},
    "frozen": {"faults": {"ngram": {"freeze_after_requests": 5}}},
    "flood": SLOW | {"faults": {"ngram": {"flood_after_requests": 5}}},
    "memory": {"faults": {"ngram": {"oom_text": True}}},
    "hang": {"faults": {"ngram": {"hang_at_startup": True}}},
    "metrics": {"faults": {"ngram": {"wrong_metrics": True}}},
}


@pytest.fixture(scope="module")
def shared_house() -> Iterator[House]:
    with tempfile.TemporaryDirectory(prefix="vd-", ignore_cleanup_errors=True) as home:
        house = House(Path(home), TARGETS)
        try:
            yield house
        finally:
            house.close()


@pytest.fixture
async def house(shared_house: House) -> AsyncIterator[House]:
    """The house with a worker; an experiment that was there before is the same afterwards."""
    if shared_house.worker is None or shared_house.worker.poll() is not None:
        shared_house.start_worker()
    async with experiment(shared_house, "plain", name="bystander") as bystander:
        await bystander.ends()
        before = await bystander.report()
        yield shared_house
        assert await bystander.report() == before
