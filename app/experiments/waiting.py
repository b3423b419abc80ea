"""Why queued blocks are not running, in words, from what hosts have published. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from app.accelerators.repository import AcceleratorFacts
from app.domain.lifecycle import AcceleratorState

SEEN_WITHIN_S: Final = 60
"""A host says every quarter of a minute what it has; one that has been silent for longer is away."""


@dataclass(frozen=True, slots=True)
class Supply:
    """What there is to run blocks on at ``now``; ``idle`` says of a host why it takes none."""

    now: datetime
    accelerators: Sequence[AcceleratorFacts]
    idle: Mapping[str, str]

    def silent_s(self, accelerator: AcceleratorFacts) -> float:
        """Seconds since its host last spoke of it."""
        return max(0.0, (self.now - accelerator.seen_at).total_seconds())

    def is_away(self, accelerator: AcceleratorFacts) -> bool:
        """Whether its host is silent. One that is leased is judged by its lease instead."""
        leased = accelerator.state is AcceleratorState.LEASED
        return not leased and self.silent_s(accelerator) > SEEN_WITHIN_S


@dataclass(frozen=True, slots=True)
class Wanted:
    """What queued blocks need; ``not_before`` is the earliest time of any of them, if none may start now."""

    kind: str
    count: int
    not_before: datetime | None = None


def why_waiting(wanted: Wanted, supply: Supply) -> str:
    """The first obstacle on the way of a block to its accelerators."""
    if gone := nobody_for(wanted.kind, supply):
        return gone
    present = [a for a in supply.accelerators if a.kind == wanted.kind and not supply.is_away(a)]
    if wanted.not_before is not None and wanted.not_before > supply.now:
        return f"not before {_at(wanted.not_before)}, after an attempt that failed"
    taking = [a for a in present if a.host not in supply.idle]
    if not taking:
        return "; ".join(f"{host} takes no blocks: {supply.idle[host]}" for host in sorted({a.host for a in present}))
    return _occupied(wanted, taking)


def nobody_for(kind: str, supply: Supply) -> str | None:
    """Why no worker at all would take a block of this kind now; ``None`` where one is there."""
    known = [a for a in supply.accelerators if a.kind == kind]
    if not known:
        return f"no worker has been seen with an accelerator of the kind {kind!r}"
    if all(map(supply.is_away, known)):
        return f"no worker with {kind!r} has been seen since {_at(max(a.seen_at for a in known))}"
    return None


def _occupied(wanted: Wanted, taking: Sequence[AcceleratorFacts]) -> str:
    """Whether enough are fit for use, and enough of those free, on one host."""
    count, kind = wanted.count, wanted.kind
    quarantined = _in_state(taking, AcceleratorState.QUARANTINED)
    aside = f", {quarantined} quarantined" if quarantined else ""
    if _most(taking, AcceleratorState.FREE, AcceleratorState.LEASED) < count:
        return f"no host has {count} of the kind {kind!r} fit for use: {len(taking)} seen{aside}"
    if _most(taking, AcceleratorState.FREE) < count:
        free, busy = _in_state(taking, AcceleratorState.FREE), _in_state(taking, AcceleratorState.LEASED)
        if free:
            return f"{count} of one host are needed: {free} free, {busy} busy{aside}"
        return f"all {busy} of the kind {kind!r} are busy{aside}"
    return "its turn comes next, or after blocks of a higher priority or of an owner who had less"


def _in_state(accelerators: Sequence[AcceleratorFacts], *states: AcceleratorState) -> int:
    return sum(a.state in states for a in accelerators)


def _most(accelerators: Sequence[AcceleratorFacts], *states: AcceleratorState) -> int:
    """The largest number in these states that one host has."""
    hosts = {a.host for a in accelerators}
    return max(_in_state([a for a in accelerators if a.host == host], *states) for host in hosts)


def _at(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
