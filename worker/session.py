"""The story of one session: a fresh server of one arm, warmed up, measured, drained and stopped.

A failure ends this session only; it is recorded with its log, and the other arms go on.
"""

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import structlog

from app.domain.condition import Condition
from app.domain.evidence import CounterDeltas, Failure, Gauges
from app.domain.exposition import counter_deltas
from app.domain.launch import LaunchSpec, launch_spec
from app.domain.lifecycle import RunState, SessionState
from app.domain.manifest import Manifest
from app.domain.schedule import PlannedSession
from app.domain.trace import Trace
from app.domain.vocabulary import WARMUP, FailureClass, Outcome
from worker.cores import CoreSplit
from worker.engine.scrape import Sampler, quiesced
from worker.engine.server import StartupFailed, VllmServer
from worker.recorder import Recorder, SessionFacts
from worker.replay.process import ReplayFailed, ReplayRecord, replay
from worker.requests import cache_salt, replay_plan

STARTUP_TIMEOUT_S = 660

log = structlog.get_logger()


class RunFailed(Exception):
    """A run could not be completed; the session cannot go on."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Bench:
    """What every session of a block shares: paths are resolved, traces are read, cores are split."""

    experiment_id: str
    block_index: int
    manifest: Manifest
    traces: dict[str, Trace]
    executable: Path
    model_paths: dict[str, Path]
    """Model reference → directory, digest verified."""
    cores: CoreSplit
    recorder: Recorder

    def launch(self, arm_name: str, scratch: Path) -> LaunchSpec:
        """How to start the arm's server with its socket and caches under ``scratch``."""
        arm = next(a for a in self.manifest.arms if a.name == arm_name)
        draft = self.model_paths.get(arm.draft_or_speculator)
        return launch_spec(
            self.manifest,
            arm,
            executable=str(self.executable),
            target_path=str(self.model_paths[self.manifest.target_model]),
            draft_path=None if draft is None else str(draft),
            socket_path=str(scratch / "vllm.sock"),
            cache_root=str(scratch / "cache"),
            engine_cores=",".join(map(str, self.cores.engine)),
        )


async def conduct_session(bench: Bench, planned: PlannedSession) -> None:
    """Conduct one session to its end; failures of the engine are recorded, not raised."""
    recorder = bench.recorder
    session_id = await recorder.start_session(planned.arm, planned.position)
    with tempfile.TemporaryDirectory(prefix="verdraft-") as directory:
        try:
            await _serve_and_measure(bench, planned, session_id, Path(directory))
        except StartupFailed as error:
            await _describe(bench, session_id, None, error.log_path)
            await recorder.move_session(session_id, SessionState.FAILED, error.failure)
        except RunFailed as error:
            await recorder.move_session(session_id, SessionState.FAILED, error.failure)
        except asyncio.CancelledError:
            canceled = Failure(failure_class=FailureClass.CANCELED, message="canceled while the session ran")
            await recorder.move_session(session_id, SessionState.CANCELED, canceled)
            raise
        else:
            await recorder.move_session(session_id, SessionState.SUCCEEDED)


async def _serve_and_measure(bench: Bench, planned: PlannedSession, session_id: UUID, scratch: Path) -> None:
    spec = bench.launch(planned.arm, scratch)
    log_path = scratch / "engine.log"
    tag = f"{session_id}:{bench.recorder.block.fence}"
    try:
        async with VllmServer(spec, log_path, tag=tag, startup_timeout_s=STARTUP_TIMEOUT_S) as server:
            await _describe(bench, session_id, server, log_path)
            await bench.recorder.move_session(session_id, SessionState.WARMING)
            await _warm_up(bench, spec, scratch)
            await bench.recorder.move_session(session_id, SessionState.MEASURING)
            for condition in planned.runs:
                await _conduct_run(bench, condition, session_id, server, scratch)
            await bench.recorder.move_session(session_id, SessionState.DRAINING)
    finally:
        if log_path.exists():
            await bench.recorder.archive("engine-log", log_path, session_id=session_id)


async def _describe(bench: Bench, session_id: UUID, server: VllmServer | None, log_path: Path) -> None:
    """Archive the start-up log as it is now, and what the server says that it resolved."""
    log_sha256 = await bench.recorder.archive("startup-log", log_path, session_id=session_id)
    facts = SessionFacts(
        startup_ns=server.startup_ns if server else None,
        argv=server.spec.argv if server else (),
        log_sha256=log_sha256,
        resolved_config=await server.resolved_config() if server else {},
        memory=server.memory() if server else {},
    )
    await bench.recorder.describe_session(session_id, facts)


async def _warm_up(bench: Bench, spec: LaunchSpec, scratch: Path) -> None:
    """Replay each trace's disjoint warm-up set; its observations are thrown away, its failures are not."""
    for workload, trace in bench.traces.items():
        salt = cache_salt(bench.experiment_id, bench.block_index, workload)
        warmup = trace.of_load(WARMUP)
        if not warmup:
            continue
        plan = replay_plan(warmup, bench.manifest.sampling, salt=salt, server=spec, cores=bench.cores.client)
        record = await _replay(plan, scratch / f"warmup-{workload}")
        failed = [o for o in record.observations if o.outcome is not Outcome.SUCCESS]
        if failed:
            message = f"warm-up request {failed[0].request_id} of {workload}: {failed[0].outcome}, {failed[0].error}"
            raise RunFailed(Failure(failure_class=FailureClass.ENGINE_DEAD, message=message))


async def _conduct_run(
    bench: Bench, condition: Condition, session_id: UUID, server: VllmServer, scratch: Path
) -> None:
    recorder = bench.recorder
    run_id = await recorder.start_run(session_id, condition.workload, condition.load)
    observations = ()
    try:
        record, gauges, counters, failure = await _measure(bench, condition, server, scratch)
        observations = record.observations
        await recorder.record_replay(run_id, observations, gauges)
        await recorder.archive("raw-reads", record.raw_path, run_id=run_id)
        if failure:
            raise RunFailed(failure)
    except RunFailed as error:
        await recorder.finish_run(run_id, RunState.FAILED, failure=error.failure, observations=observations)
        raise
    except asyncio.CancelledError:
        await recorder.finish_run(run_id, RunState.CANCELED, observations=observations)
        raise
    await recorder.finish_run(run_id, RunState.SUCCEEDED, counters=counters, observations=observations)


async def _measure(
    bench: Bench, condition: Condition, server: VllmServer, scratch: Path
) -> tuple[ReplayRecord, Gauges, CounterDeltas | None, Failure | None]:
    """Replay between two quiesced scrapes. Counters are ``None`` exactly when the engine died meanwhile."""
    trace = bench.traces[condition.workload]
    plan = replay_plan(
        trace.of_load(condition.load),
        bench.manifest.sampling,
        salt=cache_salt(bench.experiment_id, bench.block_index, condition.workload, condition.load),
        server=server.spec,
        cores=bench.cores.client,
    )
    before = await quiesced(server.socket_path)
    async with Sampler(server.socket_path) as sampler:
        record = await _replay(plan, scratch / condition.workload / condition.load)
    gauges = sampler.gauges(record.started_monotonic_ns)
    if not server.alive():
        message = f"the engine died while {condition.id} ran; its log has the reason"
        return record, gauges, None, Failure(failure_class=FailureClass.ENGINE_DEAD, message=message)
    return record, gauges, counter_deltas(before, await quiesced(server.socket_path)), None


async def _replay(plan, directory: Path) -> ReplayRecord:  # noqa: ANN001
    directory.mkdir(parents=True, exist_ok=True)
    try:
        return await replay(plan, directory)
    except ReplayFailed as error:
        raise RunFailed(Failure(failure_class=FailureClass.INFRA, message=f"the client failed: {error}")) from error
