"""The seeded order in which conditions run: randomised complete blocks.

Each block holds every arm once. With two arms the order alternates from a random start
(AB/BA balance); with more, consecutive blocks use a rotated Latin square of a shuffled
order, so that each arm stands in each place about equally often (method A12).
"""

import random
from dataclasses import dataclass

from app.domain.condition import Condition, expand
from app.domain.manifest import Manifest


@dataclass(frozen=True, slots=True)
class PlannedSession:
    """One fresh server of one arm: its runs in order."""

    arm: str
    position: int
    runs: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class PlannedBlock:
    """Every arm once, close in time. ``index`` counts from 0."""

    index: int
    sessions: tuple[PlannedSession, ...]


def plan(manifest: Manifest) -> tuple[PlannedBlock, ...]:
    """The whole schedule; the same manifest always gives the same plan."""
    conditions = expand(manifest)
    orders = arm_orders([a.name for a in manifest.arms], manifest.blocks, manifest.schedule_seed)
    return tuple(
        PlannedBlock(
            index,
            tuple(
                PlannedSession(arm, position, tuple(c for c in conditions if c.arm == arm))
                for position, arm in enumerate(order)
            ),
        )
        for index, order in enumerate(orders)
    )


AB_BA = 2
"""Two arms: keep the square's order, so that AB and BA alternate."""


def arm_orders(arms: list[str], blocks: int, seed: int) -> list[list[str]]:
    """Each block's order of arms."""
    rng = random.Random(seed)
    orders: list[list[str]] = []
    while len(orders) < blocks:
        shuffled = rng.sample(arms, len(arms))
        square = [shuffled[i:] + shuffled[:i] for i in range(len(arms))]
        orders.extend(square if len(arms) == AB_BA else rng.sample(square, len(square)))
    return orders[:blocks]
