"""The service's numbers in Prometheus' text form.

Labels take few values: kinds and hosts that workers publish, states, classes, routes; of owners the largest few.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.domain.lifecycle import AcceleratorState
from app.operations.schemas import AcceleratorRead, HostRead, OperationsRead, OwnerRead, QueueRead

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
OWNERS_MAX: Final = 20
OTHER_OWNERS: Final = "(others)"

Sample = tuple[Sequence[str], float]


def exposition(process: CollectorRegistry, now: OperationsRead | None, streams_open: int) -> bytes:
    """The process's own registry, then what the database says; ``None`` where it could not be asked."""
    asked = CollectorRegistry(auto_describe=False)
    asked.register(_Now(now, streams_open))
    return generate_latest(process) + generate_latest(asked)


class _Now(Collector):
    """One scrape's worth of what was read."""

    def __init__(self, now: OperationsRead | None, streams_open: int) -> None:
        self._now, self._streams_open = now, streams_open

    def collect(self) -> Iterator[Metric]:
        yield _gauge(
            "event_streams_open", "Event streams that this web process serves.", (), [((), self._streams_open)]
        )
        up = 0 if self._now is None else 1
        yield _gauge("database_up", "Whether this web process could read the database (1) or not (0).", (), [((), up)])
        if self._now is not None:
            yield from _blocks(self._now)
            yield from _accelerators(self._now.accelerators)
            yield from _hosts(self._now.hosts)
            yield from _failures(self._now)
            yield from _sizes(self._now)


def _blocks(now: OperationsRead) -> Iterator[Metric]:
    def by_kind(name: str, text: str, values: Iterable[tuple[QueueRead, float]]) -> Metric:
        return _gauge(name, text, ("accelerator",), [((queue.accelerator,), value) for queue, value in values])

    queues = now.queues
    yield by_kind("blocks_queued", "Blocks that wait for an accelerator.", ((q, q.queued) for q in queues))
    yield by_kind(
        "blocks_delayed",
        "Of the queued blocks, those that wait for a time after a failed attempt.",
        ((q, q.delayed) for q in queues),
    )
    yield by_kind("blocks_leased", "Blocks under way.", ((q, q.leased) for q in queues))
    yield by_kind(
        "queue_oldest_wait_seconds",
        "How long the first of the queued blocks might have been claimed.",
        ((q, q.oldest_wait_s or 0) for q in queues),
    )
    oldest: dict[str, float] = {}
    for lease in now.leases:
        oldest[lease.accelerator] = max(lease.running_s, oldest.get(lease.accelerator, 0))
    ages = [((kind,), age) for kind, age in oldest.items()]
    yield _gauge("lease_oldest_age_seconds", "How long the oldest attempt under way has run.", ("accelerator",), ages)
    expired = sum(lease.expires_in_s < 0 for lease in now.leases)
    yield _gauge("leases_expired", "Leases that have expired and were not taken back yet.", (), [((), expired)])


def _accelerators(accelerators: Sequence[AcceleratorRead]) -> Iterator[Metric]:
    labels = ("accelerator", "host", "state")
    places = sorted({(a.kind, a.host) for a in accelerators})
    states = Counter((a.kind, a.host, a.state) for a in accelerators)
    samples = [((kind, host, state), states[kind, host, state]) for kind, host in places for state in AcceleratorState]
    yield _gauge("accelerators", "Accelerators by the state they are in.", labels, samples)
    away = Counter((a.kind, a.host) for a in accelerators if a.stale)
    yield _gauge(
        "accelerators_stale",
        "Accelerators that are not leased and whose host is silent.",
        labels[:2],
        [(place, away[place]) for place in places],
    )


def _hosts(hosts: Sequence[HostRead]) -> Iterator[Metric]:
    silent = [((h.host,), h.silent_s) for h in hosts]
    yield _gauge("host_silent_seconds", "Since a worker of the host last published what it can run.", ("host",), silent)
    idle = [((h.host,), int(h.idle_because is not None)) for h in hosts]
    yield _gauge("host_idle", "Whether the host says that it takes no blocks (1), for a reason.", ("host",), idle)


def _failures(now: OperationsRead) -> Iterator[Metric]:
    family = CounterMetricFamily(
        "verdraft_failures",
        "Blocks, sessions and runs that could not be completed, of every attempt.",
        labels=("level", "failure_class"),
    )
    for count in now.failures:
        family.add_metric((count.level, count.failure_class), count.in_all)
    yield family
    retried = CounterMetricFamily("verdraft_attempts_retried", "Attempts at blocks that were followed by another.")
    retried.add_metric((), now.retries.in_all)
    yield retried


def _sizes(now: OperationsRead) -> Iterator[Metric]:
    yield _gauge("database_size_bytes", "Size of the whole database.", (), [((), now.database_bytes)])
    states = [((state,), number) for state, number in now.experiments.items()]
    yield _gauge("experiments", "Experiments by state.", ("state",), states)
    yield _gauge(
        "owner_accelerator_seconds",
        "Accelerator-seconds of the last day by owner; the fair share goes by them.",
        ("owner",),
        list(_owners(now.owners)),
    )


def _owners(owners: Sequence[OwnerRead]) -> Iterator[Sample]:
    for owner in owners[:OWNERS_MAX]:
        yield (owner.owner,), owner.accelerator_s
    if len(owners) > OWNERS_MAX:
        yield (OTHER_OWNERS,), sum(owner.accelerator_s for owner in owners[OWNERS_MAX:])


def _gauge(name: str, text: str, labels: Sequence[str], samples: Iterable[Sample]) -> Metric:
    family = GaugeMetricFamily(f"verdraft_{name}", text, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family
