"""One run: replay a load point between two quiesced scrapes, and record what was seen.

What was observed is kept even where the run then fails.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from app.domain.condition import Condition
from app.domain.errors import EvidenceRefused
from app.domain.evidence import CounterDeltas, Failure
from app.domain.exposition import Exposition, counter_deltas
from app.domain.lateness import late_client
from app.domain.lifecycle import RunState
from app.domain.observation import RequestObservation
from app.domain.retry import is_retried
from app.domain.trace import TraceRequest
from app.domain.vocabulary import BASELINE_ARM, NS_PER_MS, WARMUP, FailureClass, Outcome
from worker.bench import Bench, RunFailed
from worker.cores import stolen_cpu_ns
from worker.engine import log_lines
from worker.engine.log_file import read_log
from worker.engine.scrape import Sampler, ScrapeFailed, quiesced, scrape
from worker.engine.server import VllmServer
from worker.replay.plan import SPIN_NS
from worker.replay.process import ReplayFailed, ReplayRecord, collect
from worker.requests import cache_salt, replay_plan
from worker.watchdog import Watch, WatchdogAlarm, under_watch

RUN_ATTEMPTS_MAX = 3
"""A host whose client lags three times in a row cannot measure this load."""


async def warm_up(bench: Bench, server: VllmServer, scratch: Path) -> None:
    """Replay each trace's disjoint warm-up set. Raises ``RunFailed`` where a request is not served."""
    for workload, trace in bench.traces.items():
        requests = await asyncio.to_thread(trace.of_load, WARMUP)
        if not requests:
            continue
        salt = cache_salt(bench.experiment_id, bench.block_index, workload)
        record = await _replay(bench, requests, salt, server, scratch / f"{WARMUP}-{workload}")
        failed = [o for o in record.observations if o.outcome is not Outcome.SUCCESS]
        if failed:
            message = f"warm-up request {failed[0].request_id} of {workload}: {failed[0].outcome}, {failed[0].error}"
            raise RunFailed(_cause(server) or Failure(failure_class=FailureClass.ENGINE_DEAD, message=message))


async def conduct_run(bench: Bench, condition: Condition, session_id: UUID, server: VllmServer, scratch: Path) -> None:
    """Measure one condition, and again where the client lagged: the fault is this host's, whatever the arm.

    A void run is kept as evidence and never counted. Raises ``RunFailed`` or ``ScrapeFailed`` after
    recording why the run could not be finished.
    """
    attempts = RUN_ATTEMPTS_MAX if bench.may_repeat(condition.arm) else 1
    for number in range(1, attempts + 1):
        if await _conduct_attempt(bench, Attempt(condition, number), session_id, server, scratch):
            return


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at measuring a condition; ``number`` counts from 1."""

    condition: Condition
    number: int


async def _conduct_attempt(bench: Bench, attempt: Attempt, session_id: UUID, server: VllmServer, scratch: Path) -> bool:
    """Whether the run counts."""
    recorder, condition, stolen_ns = bench.recorder, attempt.condition, stolen_cpu_ns()
    run_id = await recorder.start_run(session_id, condition.workload, condition.load, attempt.number)
    observations: tuple[RequestObservation, ...] = ()
    try:
        before = await _starting_point(bench, condition, server)
        observations = await _observe(bench, attempt, run_id, server, scratch)
        counters = await _counters_since(before, server)
    except (RunFailed, ScrapeFailed) as error:
        state = RunState.LOST if is_retried(error.failure.failure_class) else RunState.FAILED
        await recorder.finish_run(run_id, state, failure=error.failure, observations=observations)
        raise
    if late := late_client(observations):
        void = _void(late, attempt.number, stolen_cpu_ns() - stolen_ns)
        await recorder.finish_run(run_id, RunState.FAILED, failure=void, counters=counters, observations=observations)
        return False
    await recorder.finish_run(run_id, RunState.SUCCEEDED, counters=counters, observations=observations)
    return True


def _void(late: str, number: int, stolen_ns: int) -> Failure:
    stolen = f"the hypervisor took {stolen_ns / NS_PER_MS:.0f} ms of this host's processors meanwhile"
    message = f"{late} (attempt {number} of {RUN_ATTEMPTS_MAX}; {stolen})"
    return Failure(failure_class=FailureClass.GENERATOR_LIMITED, message=message)


async def _starting_point(bench: Bench, condition: Condition, server: VllmServer) -> Exposition:
    """The scrape that the run's counters start from. Raises ``RunFailed`` naming each metric that is not there."""
    exposed = await scrape(server.socket_path)
    missing = bench.schema.missing_metrics(exposed.samples, speculative=condition.arm != BASELINE_ARM)
    if missing:
        message = f"the engine does not expose {', '.join(missing)}"
        raise RunFailed(Failure(failure_class=FailureClass.CONFIG, message=message))
    return await quiesced(server.socket_path)


async def _observe(
    bench: Bench, attempt: Attempt, run_id: UUID, server: VllmServer, scratch: Path
) -> tuple[RequestObservation, ...]:
    """Replay while sampling, then record the cases, the series and the raw reads."""
    condition, number = attempt.condition, attempt.number
    trace, directory = bench.traces[condition.workload], scratch / condition.workload / f"{condition.load}-{number}"
    salt = cache_salt(bench.experiment_id, bench.block_index, condition.workload, condition.load, number)
    load = trace.header.load(condition.load)
    clients = load.clients if load else None
    requests = await asyncio.to_thread(trace.of_load, condition.load)
    async with Sampler(server.socket_path) as sampler:
        watch = Watch(bench.limits, sampler.newest, server.flood)
        replaying = _replay(bench, requests, salt, server, directory, clients=clients)
        try:
            record = await under_watch(replaying, watch)
        except (WatchdogAlarm, asyncio.CancelledError) as stopped:
            await _keep_half(bench, run_id, directory, sampler)
            if isinstance(stopped, WatchdogAlarm):
                raise RunFailed(stopped.failure) from stopped
            raise
    await _record(bench, run_id, record, sampler)
    return record.observations


async def _keep_half(bench: Bench, run_id: UUID, directory: Path, sampler: Sampler) -> None:
    """A replay that was stopped has written what it had; it is evidence, though it never counts."""
    with suppress(ReplayFailed):
        await _record(bench, run_id, await asyncio.to_thread(collect, directory), sampler)


async def _record(bench: Bench, run_id: UUID, record: ReplayRecord, sampler: Sampler) -> None:
    await bench.recorder.record_replay(run_id, record.observations, sampler.series(record.started_monotonic_ns))
    await bench.recorder.archive("raw-reads", record.raw_path, run_id=run_id)
    await bench.recorder.archive("raw-stamps", record.stamps_path, run_id=run_id)


async def _counters_since(before: Exposition, server: VllmServer) -> CounterDeltas:
    dead = _cause(server)
    if dead:
        raise RunFailed(dead)
    try:
        return counter_deltas(before, await quiesced(server.socket_path))
    except EvidenceRefused as error:
        raise RunFailed(Failure(failure_class=FailureClass.CONFIG, message=str(error))) from error


async def _replay(
    bench: Bench,
    requests: tuple[TraceRequest, ...],
    salt: str,
    server: VllmServer,
    directory: Path,
    *,
    clients: int | None = None,
) -> ReplayRecord:
    plan = replay_plan(
        requests,
        bench.manifest.sampling,
        salt=salt,
        server=server.spec,
        cores=bench.cores.client,
        spin_ns=SPIN_NS if bench.cores.client_is_alone else 0,
        clients=clients,
    )
    try:
        return await bench.client.replay(plan, directory)
    except ReplayFailed as error:
        raise RunFailed(Failure(failure_class=FailureClass.INFRA, message=f"the client failed: {error}")) from error


def _cause(server: VllmServer) -> Failure | None:
    """Why the engine is gone, by its log; ``None`` while it lives."""
    if server.alive():
        return None
    log = read_log(server.log_path)
    return log_lines.classify_failure(log, server.exit_code, was_ready=True)
