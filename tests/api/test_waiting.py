"""Why a queued experiment is not running, in the words of the API, on a real database."""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from app.db.session import Database
from app.domain.evidence import Failure
from app.domain.lifecycle import BlockState
from app.domain.vocabulary import FailureClass
from tests.factories_operations import DISK_FULL, GPU, GPUS, Floor

Obstacle = Callable[[Floor], Awaitable[None]]
BROKEN = Failure(failure_class=FailureClass.INFRA, message="no space left on device")


async def nothing(floor: Floor) -> None:
    """No worker was ever here."""


async def other_kind(floor: Floor) -> None:
    await floor.publish("mill", "AMD EPYC 9654", ("cpu-0",))


async def silent(floor: Floor) -> None:
    await floor.publish("gpu1")
    await floor.silence("gpu1", 61)


async def idle(floor: Floor) -> None:
    await floor.publish("gpu1", idle=DISK_FULL)


async def quarantined(floor: Floor) -> None:
    await floor.publish("gpu1")
    for name in GPUS:
        await floor.quarantine("gpu1", name, "hot")


async def busy(floor: Floor) -> None:
    await floor.publish("gpu1")
    await floor.quarantine("gpu1", GPUS[0], "hot")
    await floor.register("other", schedule_seed=5, priority=9)
    for _ in range(2):
        await floor.claim("gpu1:1")


async def ready(floor: Floor) -> None:
    await floor.publish("gpu1")


@pytest.mark.parametrize(
    ("obstacle", "count", "words"),
    [
        (nothing, 1, f"no worker has been seen with an accelerator of the kind '{GPU}'"),
        (other_kind, 1, f"no worker has been seen with an accelerator of the kind '{GPU}'"),
        (silent, 1, f"no worker with '{GPU}' has been seen since 20"),
        (idle, 1, f"gpu1 takes no blocks: {DISK_FULL}"),
        (quarantined, 1, f"no host has 1 of the kind '{GPU}' fit for use: 3 seen, 3 quarantined"),
        (busy, 1, f"all 2 of the kind '{GPU}' are busy, 1 quarantined"),
        (ready, 4, f"no host has 4 of the kind '{GPU}' fit for use: 3 seen"),
        (ready, 1, "its turn comes next"),
    ],
)
async def test_the_first_obstacle_is_named(
    database: Database, client: httpx.AsyncClient, obstacle: Obstacle, count: int, words: str
) -> None:
    floor = Floor(database)
    digest = await floor.register("demo", count=count)
    await obstacle(floor)
    told = await read(client, digest)
    assert told["waits_because"].startswith(words)
    listed = (await client.get("/api/v1/experiments")).json()["items"]
    assert next(e for e in listed if e["id"] == digest)["waits_because"] == told["waits_because"]


async def test_two_of_one_host_wait_for_the_second(database: Database, client: httpx.AsyncClient) -> None:
    floor = Floor(database)
    await floor.publish("gpu1", names=GPUS[:2])
    await floor.publish("gpu2", names=("GPU-dddd",))
    await floor.register("other", schedule_seed=5, blocks=1)
    await floor.claim("gpu1:1")
    digest = await floor.register("demo", count=2)
    assert (await read(client, digest))["waits_because"] == "2 of one host are needed: 2 free, 1 busy"


async def test_after_a_failed_attempt_the_time_is_named(database: Database, client: httpx.AsyncClient) -> None:
    floor = Floor(database)
    await floor.publish("gpu1")
    digest = await floor.register("demo", blocks=1)
    block = await floor.claim("gpu1:1")
    assert (await read(client, digest))["waits_because"] is None
    await floor.give_back(block, BROKEN)
    assert (await read(client, digest))["waits_because"].startswith("not before 20")


async def test_one_block_held_back_does_not_hold_back_the_next(database: Database, client: httpx.AsyncClient) -> None:
    floor = Floor(database)
    await floor.publish("gpu1")
    digest = await floor.register("demo")
    await floor.give_back(await floor.claim("gpu1:1"), BROKEN)
    assert (await read(client, digest))["waits_because"].startswith("its turn comes next")


async def test_what_runs_or_is_over_waits_for_nothing(database: Database, client: httpx.AsyncClient) -> None:
    floor = Floor(database)
    await floor.publish("gpu1")
    digest = await floor.register("demo")
    for _ in range(2):
        block = await floor.claim("gpu1:1")
        assert (await read(client, digest))["waits_because"] is None
        await floor.finish(block, BlockState.SUCCEEDED)
    assert (await read(client, digest))["waits_because"] is None


async def test_a_stop_that_is_under_way_is_told(database: Database, client: httpx.AsyncClient) -> None:
    floor = Floor(database)
    await floor.publish("gpu1")
    digest = await floor.register("demo")
    block = await floor.claim("gpu1:1")
    assert (await read(client, digest))["cancel_requested"] is False
    assert (await client.post(f"/api/v1/experiments/{digest}/cancel")).json()["cancel_requested"] is True
    await floor.finish(block, BlockState.CANCELED)
    over = await read(client, digest)
    assert (over["state"], over["cancel_requested"]) == ("CANCELED", False)


async def read(client: httpx.AsyncClient, digest: str) -> dict[str, Any]:
    return (await client.get(f"/api/v1/experiments/{digest}")).json()
