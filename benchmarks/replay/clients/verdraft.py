"""Our own replay engine, as the product runs it: a client process that forks, records and is read afterwards.

Other designs of it can be asked for by name; ``designs.py`` has them.
"""

import asyncio
import importlib
import json
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.replay.clients.place import NS_PER_S, PROMPT, ROOT
from benchmarks.replay.offer import Offer, Reported

if TYPE_CHECKING:  # naming the client must not cost the runner what running it costs
    from worker.replay.plan import ReplayPlan
    from worker.replay.process import ReplayRecord

_OFFER = "offer.json"
_RESULT = "verdraft.json"
_DRAIN_S = 60
_LEAD_IN_NS = NS_PER_S // 2


@dataclass(frozen=True, slots=True)
class Verdraft:
    """Prompt and number of tokens as the others have them; over TCP, which all of them can."""

    name: str = "verdraft"
    module: str = "benchmarks.replay.clients.verdraft"
    function: str = "as_the_product"

    def prepare(self, offer: Offer) -> None:
        facts = asdict(offer) | {"tokenizer": str(offer.tokenizer), "directory": str(offer.directory)}
        (offer.directory / _OFFER).write_text(json.dumps(facts))

    def argv(self, offer: Offer) -> tuple[str, ...]:
        own = "benchmarks.replay.clients.verdraft"
        return (sys.executable, "-m", own, str(offer.directory), self.module, self.function)

    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(ROOT)}

    def reported(self, offer: Offer) -> Reported:
        return Reported(**json.loads((offer.directory / _RESULT).read_bytes()))


async def as_the_product(plan: "ReplayPlan", directory: Path) -> "ReplayRecord":
    """The way that every run of an experiment takes."""
    from worker.replay.process import ReplayClient  # noqa: PLC0415

    async with ReplayClient() as client:
        return await client.replay(plan, directory)


def main() -> None:
    """Replay the offer in a directory on the core that this process was given; arguments as ``argv`` gives them."""
    directory, module, function = Path(sys.argv[1]), *sys.argv[2:]
    replay: Callable[[ReplayPlan, Path], Awaitable[ReplayRecord]] = getattr(importlib.import_module(module), function)
    plan = _plan(json.loads((directory / _OFFER).read_bytes()))
    record = asyncio.run(_awaited(replay(plan, directory / "replay")))
    (directory / _RESULT).write_text(json.dumps(_result(record)))


async def _awaited(replaying: "Awaitable[ReplayRecord]") -> "ReplayRecord":
    return await replaying


def _plan(facts: dict[str, Any]) -> "ReplayPlan":
    from worker.replay.plan import ReplayPlan, ReplayRequest  # noqa: PLC0415

    asked = {"model": facts["model"], "prompt": PROMPT, "max_tokens": facts["tokens"], "stream": True}
    body = json.dumps(asked | {"ignore_eos": True, "temperature": 0}).encode()
    due_ns = (round(i * NS_PER_S / facts["rate_rps"]) for i in range(facts["requests"]))
    requests = tuple(ReplayRequest(f"r-{i}", at_ns, body) for i, at_ns in enumerate(due_ns))
    cores = tuple(os.sched_getaffinity(0))
    where = (None, "127.0.0.1", facts["port"], "/v1/completions")
    return ReplayPlan(*where, requests, _DRAIN_S * NS_PER_S, cores, _LEAD_IN_NS)


def _result(record: "ReplayRecord") -> dict[str, Any]:
    from app.domain.latency import itl_chunk_ns, ttft_from_sent_ns  # noqa: PLC0415
    from app.domain.vocabulary import Outcome  # noqa: PLC0415

    served = [o for o in record.observations if o.outcome is Outcome.SUCCESS]
    return {
        "request_ids": [o.request_id for o in served],
        "ttft_ns": [ttft_from_sent_ns(o) for o in served],
        "gaps_ns": [gap for o in served for gap in itl_chunk_ns(o)],
        "spun_s": record.spun_ns / NS_PER_S,
    }


if __name__ == "__main__":
    main()
