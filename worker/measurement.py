"""One run: replay a load point between two quiesced scrapes, and record what was seen.

What was observed is kept even where the run then fails.
"""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from app.domain.condition import Condition
from app.domain.control import Control
from app.domain.engine_version import PER_REQUEST_SPECULATION_FLAG
from app.domain.errors import EvidenceRefused
from app.domain.evidence import CounterDeltas, Failure, RunEvidence, label_of
from app.domain.exposition import counter_deltas
from app.domain.lateness import late_client
from app.domain.lifecycle import RunState
from app.domain.live import Following
from app.domain.observation import RequestObservation
from app.domain.retry import is_retried
from app.domain.run_controls import run_controls
from app.domain.series import Series
from app.domain.trace import TraceRequest
from app.domain.vocabulary import NS_PER_MS, WARMUP, FailureClass, Outcome
from app.evidence.chunks import RAW_CHUNKS, write_chunks
from worker.bench import Bench, RunFailed
from worker.cores import stolen_cpu_ns
from worker.engine import log_lines
from worker.engine.log_file import read_log
from worker.engine.scrape import Sampler, Scrape, ScrapeFailed, quiesced, scrape, series_of, write_scrapes
from worker.engine.server import VllmServer
from worker.live import LiveFeed
from worker.replay.plan import SPIN_NS
from worker.replay.process import ReplayFailed, ReplayRecord, collect
from worker.requests import cache_salt, replay_plan
from worker.scoring.answers import Scored, score_run
from worker.telemetry.sampling import Telemetry
from worker.watchdog import Watch, WatchdogAlarm, under_watch

RUN_ATTEMPTS_MAX = 3
"""A host whose client lags three times in a row cannot measure this load."""


@dataclass(frozen=True, slots=True)
class Serving:
    """One session: its server while it is up, what is sampled beside it, and where its files go."""

    session_id: UUID
    arm: str
    server: VllmServer
    telemetry: Telemetry
    scratch: Path
    live: LiveFeed
    """What pages are shown meanwhile; nothing that is measured rests on it."""


async def warm_up(bench: Bench, serving: Serving) -> None:
    """Replay each trace's disjoint warm-up set. Raises ``RunFailed`` where a request is not served."""
    for workload, trace in bench.traces.items():
        requests = await asyncio.to_thread(trace.of_load, WARMUP)
        if not requests:
            continue
        salt = cache_salt(bench.experiment_id, bench.block_index, workload)
        record = await _replay(bench, requests, salt, serving.server, serving.scratch / f"{WARMUP}-{workload}")
        failed = [o for o in record.observations if o.outcome is not Outcome.SUCCESS]
        if failed:
            message = f"warm-up request {failed[0].request_id} of {workload}: {failed[0].outcome}, {failed[0].error}"
            raise RunFailed(
                cause_of_end(serving.server) or Failure(failure_class=FailureClass.ENGINE_DEAD, message=message)
            )


async def conduct_run(bench: Bench, condition: Condition, serving: Serving) -> None:
    """Measure one condition, and again where the client lagged: the fault is this host's, whatever the arm.

    A void run is kept as evidence and never counted. Raises ``RunFailed`` or ``ScrapeFailed`` after
    recording why the run could not be finished.
    """
    attempts = RUN_ATTEMPTS_MAX if bench.may_repeat(condition.arm) else 1
    for number in range(1, attempts + 1):
        run_id = await bench.recorder.start_run(serving.session_id, condition.workload, condition.load, number)
        told = PER_REQUEST_SPECULATION_FLAG not in serving.server.spec.left_out
        if await _conduct_attempt(bench, Attempt(condition, number, run_id, told), serving):
            return


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at measuring a condition; ``number`` counts from 1."""

    condition: Condition
    number: int
    run_id: UUID
    counts_per_request: bool
    """Whether this server's responses carry each request's own speculation counts."""


async def _conduct_attempt(bench: Bench, attempt: Attempt, serving: Serving) -> bool:
    """Whether the run counts."""
    stolen_ns = stolen_cpu_ns()
    seen = Seen()
    try:
        await _observe(bench, attempt, serving, seen)
        counters = _counters(seen)
    except (RunFailed, ScrapeFailed) as error:
        state = RunState.LOST if is_retried(error.failure.failure_class) else RunState.FAILED
        await bench.recorder.finish_run(attempt.run_id, state, failure=error.failure, observations=seen.observations)
        raise
    late = late_client(seen.observations)
    void = _void(late, attempt.number, stolen_cpu_ns() - stolen_ns) if late else None
    scored = Scored() if void else await _scored(bench, attempt, seen)
    await bench.recorder.finish_run(
        attempt.run_id,
        RunState.FAILED if void else RunState.SUCCEEDED,
        failure=void,
        counters=counters,
        observations=seen.observations,
        controls=_controls(bench, attempt, seen, counters),
        unobservable=seen.unobservable,
        scorer=scored.scorer,
        scores=scored.scores,
    )
    return void is None


def _void(late: str, number: int, stolen_ns: int) -> Failure:
    stolen = f"the hypervisor took {stolen_ns / NS_PER_MS:.0f} ms of this host's processors meanwhile"
    message = f"{late} (attempt {number} of {RUN_ATTEMPTS_MAX}; {stolen})"
    return Failure(failure_class=FailureClass.GENERATOR_LIMITED, message=message)


@dataclass(slots=True)
class Seen:
    """What one replay showed so far; whatever then fails, what is here is recorded."""

    requests: tuple[TraceRequest, ...] = ()
    """As they were sent."""
    record: ReplayRecord | None = None
    scrapes: list[Scrape] = field(default_factory=list[Scrape])
    """At rest before it, each second of it, and at rest after it."""
    series: tuple[Series, ...] = ()
    unobservable: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def observations(self) -> tuple[RequestObservation, ...]:
        """The raw cases; none before the replay is over."""
        return self.record.observations if self.record else ()


async def _observe(bench: Bench, attempt: Attempt, serving: Serving, seen: Seen) -> None:
    """Replay between two scrapes at rest, sampling meanwhile, and record the cases, the series and the raw reads."""
    condition, server = attempt.condition, serving.server
    directory = serving.scratch / condition.workload / f"{condition.load}-{attempt.number}"
    seen.requests = await asyncio.to_thread(bench.traces[condition.workload].of_load, condition.load)
    seen.scrapes.append(await _starting_point(bench, condition, server))
    following = Following(condition.workload, condition.load, attempt.number, len(seen.requests))
    with serving.live.run(following, seen.scrapes):
        await _replay_watched(bench, attempt, serving, directory, seen)
    try:
        if dead := cause_of_end(server):
            raise RunFailed(dead)
        seen.scrapes.append(await quiesced(server.socket_path))
    finally:
        await _record(bench, attempt, serving, directory, seen)


async def _replay_watched(bench: Bench, attempt: Attempt, serving: Serving, directory: Path, seen: Seen) -> None:
    """Replay, scraping each second. What a replay that had to be stopped has written is recorded before this raises."""
    server = serving.server
    async with Sampler(server.socket_path, seen.scrapes, told=serving.live.scraped) as sampler:
        watch = Watch(bench.limits, sampler.newest, server.flood)
        try:
            seen.record = await under_watch(_replay_load(bench, attempt, server, directory, seen), watch)
        except (WatchdogAlarm, asyncio.CancelledError) as stopped:
            await _keep_half(bench, attempt, serving, directory, seen)
            if isinstance(stopped, WatchdogAlarm):
                raise RunFailed(stopped.failure) from stopped
            raise


async def _starting_point(bench: Bench, condition: Condition, server: VllmServer) -> Scrape:
    """The scrape that the run's counters start from. Raises ``RunFailed`` naming each metric that is not there."""
    exposed = (await scrape(server.socket_path)).exposition
    missing = bench.schema.missing_metrics(exposed.samples, speculative=bench.arm(condition.arm).speculates)
    if missing:
        message = f"the engine does not expose {', '.join(missing)}"
        raise RunFailed(Failure(failure_class=FailureClass.CONFIG, message=message))
    return await quiesced(server.socket_path)


async def _replay_load(bench: Bench, attempt: Attempt, server: VllmServer, directory: Path, seen: Seen) -> ReplayRecord:
    condition, trace = attempt.condition, bench.traces[attempt.condition.workload]
    salt = cache_salt(bench.experiment_id, bench.block_index, condition.workload, condition.load, attempt.number)
    load = trace.header.load(condition.load)
    return await _replay(bench, seen.requests, salt, server, directory, clients=load.clients if load else None)


async def _keep_half(bench: Bench, attempt: Attempt, serving: Serving, directory: Path, seen: Seen) -> None:
    """A replay that was stopped has written what it had; it is evidence, though it never counts."""
    with suppress(ReplayFailed):
        seen.record = await asyncio.to_thread(collect, directory)
        await _record(bench, attempt, serving, directory, seen)


async def _record(bench: Bench, attempt: Attempt, serving: Serving, directory: Path, seen: Seen) -> None:
    record, recorder, run_id = seen.record, bench.recorder, attempt.run_id
    if record is None:
        return
    await serving.telemetry.sample()
    started_ns, ended_ns = record.started_monotonic_ns, time.monotonic_ns()
    scraped = await asyncio.to_thread(series_of, seen.scrapes, started_ns)
    seen.series = (*scraped, *serving.telemetry.series(started_ns, ended_ns))
    seen.unobservable = serving.telemetry.unobservable_since(started_ns, ended_ns)
    await recorder.record_replay(run_id, record.observations, seen.series)
    scrapes, chunks = directory / "scrapes.jsonl", directory / "chunks.parquet"
    await asyncio.to_thread(write_scrapes, scrapes, seen.scrapes)
    await asyncio.to_thread(write_chunks, chunks, record.observations)
    for kind, path in (
        (RAW_CHUNKS, chunks),
        ("raw-reads", record.raw_path),
        ("raw-stamps", record.stamps_path),
        ("raw-scrapes", scrapes),
    ):
        await recorder.archive(kind, path, run_id=run_id)


def _counters(seen: Seen) -> CounterDeltas:
    try:
        return counter_deltas(seen.scrapes[0].exposition, seen.scrapes[-1].exposition)
    except EvidenceRefused as error:
        raise RunFailed(Failure(failure_class=FailureClass.CONFIG, message=str(error))) from error


async def _scored(bench: Bench, attempt: Attempt, seen: Seen) -> Scored:
    quality = next(w.quality for w in bench.manifest.workloads if w.name == attempt.condition.workload)
    return await score_run(quality, seen.requests, seen.observations, bench.cores.client)


def _controls(bench: Bench, attempt: Attempt, seen: Seen, counters: CounterDeltas) -> tuple[Control, ...]:
    """As the report will find them; stored with the run, so that a live page can show them."""
    condition = attempt.condition
    arm = bench.arm(condition.arm)
    labels = map(label_of, seen.requests)
    run = RunEvidence(
        block=bench.block_index,
        arm=condition.arm,
        workload=condition.workload,
        load=condition.load,
        attempt=attempt.number,
        state=RunState.SUCCEEDED,
        observations=seen.observations,
        counters=counters,
        series=seen.series,
        unobservable=seen.unobservable,
    )
    return run_controls(
        run,
        {label.request_id: label for label in labels},
        k=arm.k,
        counts_per_request=attempt.counts_per_request,
    )


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


def cause_of_end(server: VllmServer) -> Failure | None:
    """Why the engine is gone, by its log; ``None`` while it lives."""
    if server.alive():
        return None
    log = read_log(server.log_path)
    return log_lines.classify_failure(log, server.exit_code, was_ready=True)
