"""Our own replay engine, as the product runs it: a client process that forks, records and is read afterwards."""

import asyncio
import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.replay.clients.place import NS_PER_S, PROMPT, ROOT
from benchmarks.replay.offer import Offer, Reported

_OFFER = "offer.json"
_RESULT = "verdraft.json"
_DRAIN_S = 60
_LEAD_IN_NS = NS_PER_S // 2


@dataclass(frozen=True, slots=True)
class Verdraft:
    """Prompt and number of tokens as the others have them; over TCP, which all of them can."""

    name: str = "verdraft"

    def prepare(self, offer: Offer) -> None:
        facts = asdict(offer) | {"tokenizer": str(offer.tokenizer), "directory": str(offer.directory)}
        (offer.directory / _OFFER).write_text(json.dumps(facts))

    def argv(self, offer: Offer) -> tuple[str, ...]:
        return (sys.executable, "-m", "benchmarks.replay.clients.verdraft", str(offer.directory))

    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(ROOT)}

    def reported(self, offer: Offer) -> Reported:
        return Reported(**json.loads((offer.directory / _RESULT).read_bytes()))


def main() -> None:
    """Replay the offer in the directory named on the command line, on the core that this process was given."""
    # Here, since naming the client must not cost the runner what running it costs.
    from app.domain.latency import itl_chunk_ns, ttft_from_sent_ns  # noqa: PLC0415
    from app.domain.vocabulary import Outcome  # noqa: PLC0415

    directory = Path(sys.argv[1])
    facts: dict[str, Any] = json.loads((directory / _OFFER).read_bytes())
    record = asyncio.run(_replay(facts, directory / "replay"))
    served = [o for o in record.observations if o.outcome is Outcome.SUCCESS]
    result = {
        "request_ids": [o.request_id for o in served],
        "ttft_ns": [ttft_from_sent_ns(o) for o in served],
        "gaps_ns": [gap for o in served for gap in itl_chunk_ns(o)],
        "spun_s": record.spun_ns / NS_PER_S,
    }
    (directory / _RESULT).write_text(json.dumps(result))


async def _replay(facts: dict[str, Any], directory: Path) -> Any:
    from worker.replay.plan import ReplayPlan, ReplayRequest  # noqa: PLC0415
    from worker.replay.process import ReplayClient  # noqa: PLC0415

    asked = {"model": facts["model"], "prompt": PROMPT, "max_tokens": facts["tokens"], "stream": True}
    body = json.dumps(asked | {"ignore_eos": True, "temperature": 0}).encode()
    requests = tuple(
        ReplayRequest(f"r-{i}", round(i * NS_PER_S / facts["rate_rps"]), body) for i in range(facts["requests"])
    )
    cores = tuple(os.sched_getaffinity(0))
    plan = ReplayPlan(
        None, "127.0.0.1", facts["port"], "/v1/completions", requests, _DRAIN_S * NS_PER_S, cores, _LEAD_IN_NS
    )
    async with ReplayClient() as client:
        return await client.replay(plan, directory)


if __name__ == "__main__":
    main()
