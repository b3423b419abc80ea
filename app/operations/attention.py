"""What will not get better by itself, and what a person can do about it, worst first. Pure."""

from collections.abc import Iterator, Sequence
from urllib.parse import urlencode

from app.domain.lifecycle import AcceleratorState
from app.domain.vocabulary import FailureClass
from app.experiments.waiting import Supply, Wanted, why_waiting
from app.operations.schemas import (
    AcceleratorRead,
    Attention,
    FailureCount,
    FailureLevel,
    HostRead,
    LeaseRead,
    OperationsRead,
    QueueRead,
)

REAPED_WITHIN_S = 60
"""A lease that expired longer ago than this should have been taken back by somebody."""


def needing_attention(now: OperationsRead, supply: Supply) -> list[Attention]:
    """Everything that waits for a person."""
    return [
        *_unreaped(now.leases),
        *_stuck(now.queues, supply),
        *_away(now.hosts),
        *_idle(now.hosts),
        *_quarantined(now.accelerators),
        *_ours(now.failures),
    ]


def _unreaped(leases: Sequence[LeaseRead]) -> Iterator[Attention]:
    for lease in leases:
        if lease.expires_in_s < -REAPED_WITHIN_S:
            yield Attention(
                what=f"The lease of {lease.worker} on block {lease.block + 1} of {lease.experiment_name} expired, "
                "and nobody has taken it back.",
                remedy="The web process does that every 15 s: look into its log for why it does not.",
                page=f"/experiments/{lease.experiment_id[:12]}",
            )


def _stuck(queues: Sequence[QueueRead], supply: Supply) -> Iterator[Attention]:
    """Kinds of which nothing runs although blocks are queued, and nothing that runs will change that."""
    for queue in queues:
        serving = [a for a in supply.accelerators if a.kind == queue.accelerator and not supply.is_away(a)]
        usable = [a for a in serving if a.state is not AcceleratorState.QUARANTINED and a.host not in supply.idle]
        if queue.queued and not usable:
            why = why_waiting(Wanted(queue.accelerator, count=1), supply)
            yield Attention(
                what=f"{_blocks(queue.queued)} queued for {queue.accelerator}: {why}.",
                remedy="Start a worker on a host of that kind, or remove what keeps it from taking blocks.",
            )


def _away(hosts: Sequence[HostRead]) -> Iterator[Attention]:
    for host in hosts:
        if host.stale:
            yield Attention(
                what=f"The worker of {host.host} is silent.",
                remedy="Look on that host whether it runs, and whether it reaches Postgres and Redis; start it again.",
            )


def _idle(hosts: Sequence[HostRead]) -> Iterator[Attention]:
    for host in hosts:
        if host.idle_because and not host.stale:
            yield Attention(
                what=f"{host.host} takes no blocks: {host.idle_because}.",
                remedy="It takes blocks again by itself once that is gone.",
            )


def _quarantined(accelerators: Sequence[AcceleratorRead]) -> Iterator[Attention]:
    for accelerator in accelerators:
        if accelerator.state is AcceleratorState.QUARANTINED:
            yield Attention(
                what=f"{accelerator.address} is in quarantine: {accelerator.reason or 'no reason was recorded'}.",
                remedy="Look at it, then release it; nothing runs on it until then.",
                page=f"/operations/accelerator?{urlencode({'host': accelerator.host, 'name': accelerator.name})}",
            )


def _ours(failures: Sequence[FailureCount]) -> Iterator[Attention]:
    """What the service or its host broke; what an engine broke is a finding about its arm."""
    lost = [
        f for f in failures if (f.level, f.failure_class) == (FailureLevel.BLOCK, FailureClass.INFRA) and f.last_day
    ]
    for count in lost:
        yield Attention(
            what=f"{_blocks(count.last_day)} given up within a day because of the service or a host (INFRA).",
            remedy="Read their messages below; the same experiment cannot measure them again.",
            page="/operations#newest-title",
        )


def _blocks(number: int) -> str:
    return "1 block" if number == 1 else f"{number} blocks"
