"""evalscope perf: one asyncio process over aiohttp.

Its ``--rate`` is a Poisson process, so constant arrivals are given to it as a trace of requests to replay.
"""

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.replay.clients.place import ALONE, NS_PER_S, PROMPT, command, results_of
from benchmarks.replay.offer import Offer, Reported

_TRACE, _DATABASE = "requests.jsonl", "benchmark_data.db"
_SERVED = "SELECT request_id, first_chunk_latency, inter_token_latencies FROM result WHERE success = 1"


@dataclass(frozen=True, slots=True)
class Evalscope:
    name: str = "evalscope perf"

    def prepare(self, offer: Offer) -> None:
        body = {"model": offer.model, "prompt": PROMPT, "max_tokens": offer.tokens, "ignore_eos": True, "stream": True}
        records = (_record(i, offer.rate_rps) | {"body": body} for i in range(offer.requests))
        (offer.directory / _TRACE).write_text("".join(f"{json.dumps(record)}\n" for record in records))

    def argv(self, offer: Offer) -> tuple[str, ...]:
        return (
            *(command("evalscope"), "perf", "--api", "openai", "--url", f"{offer.base_url}/v1/completions"),
            *("--dataset", "workload_trace", "--dataset-path", str(offer.directory / _TRACE)),
            *("--open-loop", "--rate", str(offer.rate_rps), "--number", str(offer.requests)),
            *("--no-test-connection", "--log-every-n-query", str(offer.requests + 1)),
            *("--outputs-dir", str(offer.directory), "--no-timestamp", "--name", "evalscope"),
        )

    def environment(self) -> dict[str, str]:
        return dict(ALONE)

    @results_of(name)
    def reported(self, offer: Offer) -> Reported:
        with closing(sqlite3.connect(f"file:{_database(offer.directory)}?mode=ro", uri=True)) as database:
            rows: list[tuple[str, float, str]] = database.execute(_SERVED).fetchall()
        return Reported(
            ttft_ns=tuple(round(ttft_s * NS_PER_S) for _, ttft_s, _ in rows),
            gaps_ns=tuple(gap_s * NS_PER_S for _, _, gaps in rows for gap_s in json.loads(gaps)),
            request_ids=tuple(request_id for request_id, _, _ in rows),
        )


def _record(i: int, rate_rps: float) -> dict[str, Any]:
    """The id goes to the server as a header, and into the results."""
    return {"timestamp": i / rate_rps, "request_id": str(i), "headers": {"x-request-id": str(i)}}


def _database(directory: Path) -> Path:
    """It lies in a directory named after rate and number."""
    found = list(directory.rglob(_DATABASE))
    if len(found) != 1:
        raise FileNotFoundError(f"{len(found)} {_DATABASE} under {directory}, not one")
    return found[0]
