"""A million chunks of one to eight tokens on irregular schedules: what the client recorded is what the referee did."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from app.domain.observation import RequestObservation
from app.domain.vocabulary import NS_PER_MS, NS_PER_S, Outcome
from benchmarks.replay.referee import Served, referee
from benchmarks.replay.runs import CLIENT_CORE, REFEREE_CORE
from worker.replay.plan import ReplayPlan, ReplayRequest
from worker.replay.process import ReplayClient, ReplayRecord

REQUESTS = 2_000
CHUNKS_A_REQUEST = 500
RATE_RPS = 80.0
TOKENS_MAX = 8
GROWTH_MAX_BYTES = 64 * 2**20
"""A client that kept the bytes it read would grow by four times as much."""

_SCHEDULES = 20
_SEED = 20


@dataclass(frozen=True, slots=True)
class Known:
    """``exact``: requests whose chunks came back in number, order, sizes and token ids as they were sent."""

    requests: int
    chunks: int
    exact: int
    error_p50_ms: float
    """From the moment before the referee gave a chunk to the kernel to the client's stamp."""
    error_p99_ms: float
    error_max_ms: float
    grown_bytes: int
    """By how much the client was larger than the same client with one request."""

    @property
    def met(self) -> bool:
        return self.exact == self.requests and self.grown_bytes <= GROWTH_MAX_BYTES


async def know(requests: int = REQUESTS, chunks: int = CHUNKS_A_REQUEST) -> Known:
    """Raises ``OSError`` and ``ReplayFailed``."""
    with TemporaryDirectory(prefix="bench-") as directory:
        socket_path = f"{directory}/s"
        with referee(REFEREE_CORE, socket_path=socket_path) as judged:
            async with ReplayClient() as client:
                plan = _plan(socket_path, requests, chunks)
                small = await client.replay(_plan(socket_path, 1, 1), Path(directory) / "small")
                judged.forget()
                record = await client.replay(plan, Path(directory) / "replay")
            log = {served.request_id: served for served in judged.log()}
        return _compared(record, log, record.peak_rss_bytes - small.peak_rss_bytes)


def _plan(socket_path: str, requests: int, chunks: int) -> ReplayPlan:
    chance = random.Random(_SEED)
    bodies = [_body(chance, chunks) for _ in range(_SCHEDULES)]
    planned = tuple(
        ReplayRequest(f"r-{i}", round(i * NS_PER_S / RATE_RPS), bodies[i % _SCHEDULES]) for i in range(requests)
    )
    where = (socket_path, None, None, "/v1/completions")
    return ReplayPlan(*where, planned, 60 * NS_PER_S, (CLIENT_CORE,), NS_PER_S // 2)


def _body(chance: random.Random, chunks: int) -> bytes:
    schedule = [[chance.choice((0, 1, 5, 10)), chance.randint(1, TOKENS_MAX)] for _ in range(chunks)]
    return json.dumps({"model": "null", "prompt": "go", "null_schedule": schedule}).encode()


def _compared(record: ReplayRecord, log: dict[str, Served], grown_bytes: int) -> Known:
    exact = [seen for seen in record.observations if _is_exact(seen, log[seen.request_id])]
    error_ms = np.concatenate([list(_errors_ns(record, seen, log[seen.request_id])) for seen in exact]) / NS_PER_MS
    p50, p99, most = (float(value) for value in np.quantile(error_ms, (0.5, 0.99, 1.0)))
    chunks = sum(len(seen.chunk_ns) for seen in record.observations)
    return Known(len(record.observations), chunks, len(exact), p50, p99, most, grown_bytes)


def _is_exact(seen: RequestObservation, served: Served) -> bool:
    return (
        seen.outcome is Outcome.SUCCESS
        and seen.chunk_tokens == served.chunk_tokens
        and seen.token_ids == tuple(range(sum(served.chunk_tokens)))
    )


def _errors_ns(record: ReplayRecord, seen: RequestObservation, served: Served) -> Iterator[int]:
    for departed_ns, chunk_ns in zip(served.departed_ns, seen.chunk_ns, strict=True):
        yield record.started_monotonic_ns + chunk_ns - departed_ns
