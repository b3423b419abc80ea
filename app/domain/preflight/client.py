"""Can this host's own client offer the loads and keep time?"""

from collections.abc import Iterator
from typing import NamedTuple

from app.domain.client_range import ClientLoad, ClientRange
from app.domain.preflight.case import NOWHERE, Case
from app.domain.preflight.outcome import Check, Topic

CALIBRATE = "run `verdraft calibrate` on that host; until then each run judges itself"


class _Asked(NamedTuple):
    field: str
    who: str
    load: ClientLoad


def client_range(case: Case, topic: Topic) -> Check:
    """The client of this host was measured to keep time at every load."""
    known = case.host.client_range
    if case.host is NOWHERE:
        return topic.cannot_say("no worker has published a host with this runtime")
    if case.host.client_range_void or known is None:
        reason = case.host.client_range_void or "the client of this host was never calibrated"
        return topic.cannot_say(reason, CALIBRATE)
    asked = [*_asked(case)]
    beyond = [one for one in asked if not known.holds(one.load)]
    if beyond:
        return _refusal(topic, known, max(beyond, key=lambda one: _share(known, one.load)), len(beyond), len(asked))
    if any(one.load.rate_rps is not None and one.load.chunks_per_s is None for one in asked):
        return topic.cannot_say(f"rates and clients are within the range of {known.measured}; answers are not known")
    return topic.passes(f"within what was measured {known.measured}: {known.reach}")


def _asked(case: Case) -> Iterator[_Asked]:
    """Each workload at each load. Of a closed loop only its clients are known, of an open loop not how many wait."""
    for index, load in enumerate(case.manifest.loads):
        for workload in case.manifest.workloads:
            tokens = case.answers.get(workload.name, {}).get(load.name)
            rate = load.rate_rps
            chunks = None if rate is None or tokens is None else rate * tokens
            field = f"loads[{index}].{'clients' if rate is None else 'rate_rps'}"
            yield _Asked(field, f"{workload.name} at {load.name}", ClientLoad(rate, load.clients, chunks))


def _refusal(topic: Topic, known: ClientRange, worst: _Asked, beyond: int, every: int) -> Check:
    nearest = known.nearest(worst.load)
    there = "it kept time at no load" if nearest is None else f"the nearest at which it kept time is {nearest.words}"
    others = f" ({beyond} of {every} loads are beyond the range)" if beyond > 1 else ""
    reason = f"{worst.who} asks the client for {worst.load.words}; {there}, measured {known.measured}{others}"
    remedy = "lower the load, give the client more or faster cores, or run `verdraft calibrate` again on a quiet host"
    return topic.at(worst.field).fails(reason, remedy)


def _share(known: ClientRange, load: ClientLoad) -> float:
    nearest = known.nearest(load)
    return float("inf") if nearest is None else load.share_of(nearest)
