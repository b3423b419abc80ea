"""One run: replay a load point between two quiesced scrapes, and record what was seen.

What was observed is kept even where the run then fails.
"""

import asyncio
from pathlib import Path
from uuid import UUID

from app.domain.condition import Condition
from app.domain.errors import EvidenceRefused
from app.domain.evidence import CounterDeltas, Failure
from app.domain.exposition import Exposition, counter_deltas
from app.domain.lifecycle import RunState
from app.domain.observation import RequestObservation
from app.domain.trace import TraceRequest
from app.domain.vocabulary import WARMUP, FailureClass, Outcome
from worker.bench import Bench, RunFailed
from worker.engine import log_lines
from worker.engine.scrape import Sampler, ScrapeFailed, quiesced
from worker.engine.server import VllmServer
from worker.replay.process import ReplayFailed, ReplayRecord, replay
from worker.requests import cache_salt, replay_plan


async def warm_up(bench: Bench, server: VllmServer, scratch: Path) -> None:
    """Replay each trace's disjoint warm-up set. Raises ``RunFailed`` where a request is not served."""
    for workload, trace in bench.traces.items():
        requests = trace.of_load(WARMUP)
        if not requests:
            continue
        salt = cache_salt(bench.experiment_id, bench.block_index, workload)
        record = await _replay(bench, requests, salt, server, scratch / f"{WARMUP}-{workload}")
        failed = [o for o in record.observations if o.outcome is not Outcome.SUCCESS]
        if failed:
            message = f"warm-up request {failed[0].request_id} of {workload}: {failed[0].outcome}, {failed[0].error}"
            raise RunFailed(_cause(server) or Failure(failure_class=FailureClass.ENGINE_DEAD, message=message))


async def conduct_run(bench: Bench, condition: Condition, session_id: UUID, server: VllmServer, scratch: Path) -> None:
    """Measure one condition; raises ``RunFailed`` or ``ScrapeFailed`` after recording why it could not be finished."""
    recorder = bench.recorder
    run_id = await recorder.start_run(session_id, condition.workload, condition.load)
    observations: tuple[RequestObservation, ...] = ()
    try:
        before = await quiesced(server.socket_path)
        observations = await _observe(bench, condition, run_id, server, scratch)
        counters = await _counters_since(before, server)
    except (RunFailed, ScrapeFailed) as error:
        await recorder.finish_run(run_id, RunState.FAILED, failure=error.failure, observations=observations)
        raise
    except asyncio.CancelledError:
        await recorder.finish_run(run_id, RunState.CANCELED, observations=observations)
        raise
    await recorder.finish_run(run_id, RunState.SUCCEEDED, counters=counters, observations=observations)


async def _observe(
    bench: Bench, condition: Condition, run_id: UUID, server: VllmServer, scratch: Path
) -> tuple[RequestObservation, ...]:
    """Replay while sampling, then record the cases, the series and the raw reads."""
    requests = bench.traces[condition.workload].of_load(condition.load)
    salt = cache_salt(bench.experiment_id, bench.block_index, condition.workload, condition.load)
    async with Sampler(server.socket_path) as sampler:
        record = await _replay(bench, requests, salt, server, scratch / condition.workload / condition.load)
    await bench.recorder.record_replay(run_id, record.observations, sampler.gauges(record.started_monotonic_ns))
    await bench.recorder.archive("raw-reads", record.raw_path, run_id=run_id)
    return record.observations


async def _counters_since(before: Exposition, server: VllmServer) -> CounterDeltas:
    dead = _cause(server)
    if dead:
        raise RunFailed(dead)
    try:
        return counter_deltas(before, await quiesced(server.socket_path))
    except EvidenceRefused as error:
        raise RunFailed(Failure(failure_class=FailureClass.CONFIG, message=str(error))) from error


async def _replay(
    bench: Bench, requests: tuple[TraceRequest, ...], salt: str, server: VllmServer, directory: Path
) -> ReplayRecord:
    plan = replay_plan(requests, bench.manifest.sampling, salt=salt, server=server.spec, cores=bench.cores.client)
    try:
        return await replay(plan, directory)
    except ReplayFailed as error:
        raise RunFailed(Failure(failure_class=FailureClass.INFRA, message=f"the client failed: {error}")) from error


def _cause(server: VllmServer) -> Failure | None:
    """Why the engine is gone, by its log; ``None`` while it lives."""
    if server.alive():
        return None
    log = server.log_path.read_text(errors="replace")
    return log_lines.classify_failure(log, server.exit_code, was_ready=True)
