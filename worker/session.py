"""The story of one session: a fresh server of one arm, warmed up, measured, verified, drained and stopped.

A failure of the engine ends this session only; it is recorded with its log, and the other arms go on. What this
service or its host broke interrupts the block. A session that is canceled is closed by whoever ends its block.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import UUID

import psutil
import structlog
from structlog.contextvars import bound_contextvars

from app.db.notify import LiveSender
from app.domain.client_range import CLIENT_RANGE
from app.domain.evidence import Failure
from app.domain.lifecycle import SessionState
from app.domain.memory import MemoryBreakdown
from app.domain.memory_breakdown import breakdown
from app.domain.retry import is_retried
from app.domain.schedule import PlannedSession
from app.domain.startup import CanaryFacts
from app.domain.vocabulary import BASELINE_ARM
from app.runs.facts import SessionFacts
from worker.accelerators import back_to_baseline
from worker.bench import Bench, Interrupted, RunFailed
from worker.engine import log_lines
from worker.engine.log_file import read_log
from worker.engine.memory import memory_facts
from worker.engine.scrape import ScrapeFailed
from worker.engine.server import Configuration, StartupFailed, VllmServer
from worker.live import LiveFeed, LiveSource
from worker.measurement import Serving, conduct_run, warm_up
from worker.recorder import Recorder
from worker.scratch import scratch_directory
from worker.telemetry.sampling import Telemetry
from worker.verification.phase import verify

log = structlog.get_logger()


Work = Callable[[Serving], Awaitable[None]]
"""What a session is for: done when its server is warm, and followed by its end."""


async def conduct_session(bench: Bench, planned: PlannedSession) -> None:
    """Conduct one session to its end; failures of the engine are recorded, not raised."""

    async def work(serving: Serving) -> None:
        if planned.runs:
            await _measure(bench, planned, serving)
        await verify(bench, serving)

    session_id = await bench.recorder.start_session(planned.arm, planned.position)
    await _conduct(bench, planned.arm, session_id, work)


async def conduct_diagnosis(bench: Bench, arm: str, position: int, work: Work, *, may_tell_logits: bool = True) -> None:
    """Conduct a session that measures nothing and only answers again; its failures too are recorded, not raised."""

    async def answer(serving: Serving) -> None:
        await bench.recorder.move_session(serving.session_id, SessionState.VERIFYING)
        await work(serving)

    session_id = await bench.recorder.start_session(arm, position, diagnosing=True)
    await _conduct(
        bench, arm, session_id, answer, tells_logits=may_tell_logits and bench.can_tell_logits and arm == BASELINE_ARM
    )


async def _conduct(bench: Bench, arm: str, session_id: UUID, work: Work, *, tells_logits: bool = False) -> None:
    recorder = bench.recorder
    with scratch_directory() as scratch, bound_contextvars(session=str(session_id), arm=arm):
        try:
            await _serve(bench, _stand(bench, arm, session_id, scratch, tells_logits=tells_logits), work)
        except (StartupFailed, RunFailed, ScrapeFailed) as error:
            await _end_early(recorder, session_id, error.failure)
        else:
            await recorder.move_session(session_id, SessionState.SUCCEEDED)


async def _end_early(recorder: Recorder, session_id: UUID, failure: Failure) -> None:
    log.warning("session failed", failure_class=failure.failure_class, failure=failure.message)
    if not is_retried(failure.failure_class):
        await recorder.move_session(session_id, SessionState.FAILED, failure)
        return
    await recorder.move_session(session_id, SessionState.LOST, failure)
    raise Interrupted(failure)


async def _serve(bench: Bench, serving: Serving, work: Work) -> None:
    """Start the server, do the work, stop it; log and telemetry are archived however that ends."""
    session_id = serving.session_id
    try:
        async with serving.live, serving.telemetry, serving.server:
            await _warm_up(bench, serving)
            await work(serving)
            await bench.recorder.move_session(session_id, SessionState.DRAINING)
    except StartupFailed:
        await _describe(bench, serving, serving.server.logged_configuration(), None)
        raise
    finally:
        await _archive_log(bench, "engine-log", serving)
        await bench.recorder.archive("telemetry", serving.telemetry.path, session_id=session_id)
        # Some warnings come only while requests are served.
        await bench.recorder.record_warnings(session_id, await asyncio.to_thread(serving.server.warnings))
        await back_to_baseline(bench.held)


def _stand(bench: Bench, arm: str, session_id: UUID, scratch: Path, *, tells_logits: bool) -> Serving:
    tag = f"{session_id}:{bench.recorder.block.fence}"
    server = VllmServer(
        bench.launch(arm, scratch, tells_logits=tells_logits),
        scratch / "engine.log",
        tag=tag,
        startup_timeout_s=bench.startup_timeout_s,
        model_facts_path=bench.model_facts_path,
        inherited=bench.held.descriptors,
        log_bytes_max=bench.limits.log_bytes_max,
    )
    telemetry = Telemetry(
        scratch,
        gpus=bench.held.gpus,
        engine_tag=tag,
        clients=bench.client.pids,
        cores=bench.cores.engine_tree,
    )
    return Serving(session_id, arm, server, telemetry, scratch, _live(bench, arm, server, telemetry))


def _live(bench: Bench, arm: str, server: VllmServer, telemetry: Telemetry) -> LiveFeed:
    sender = LiveSender(bench.live_url, bench.experiment_id) if bench.live_url else None
    return LiveFeed(LiveSource(bench.block_index, arm, server.log_path, telemetry.path), sender)


async def _warm_up(bench: Bench, serving: Serving) -> None:
    """Warm up, and meanwhile ask what the server resolved: vLLM takes seconds to say."""
    server = serving.server
    canary = await server.canary_facts()
    await bench.recorder.move_session(serving.session_id, SessionState.WARMING)
    asking = (warm_up(bench, serving), server.configuration())
    warmed, configuration = await asyncio.gather(*asking, return_exceptions=True)
    if isinstance(configuration, BaseException):  # of a server that is gone, the log still says what was resolved
        configuration = server.logged_configuration()
    await _describe(bench, serving, configuration, canary)
    if warmed is not None:
        raise warmed


async def _measure(bench: Bench, planned: PlannedSession, serving: Serving) -> None:
    await bench.recorder.move_session(serving.session_id, SessionState.MEASURING)
    for condition in planned.runs:
        await conduct_run(bench, condition, serving)


async def _describe(bench: Bench, serving: Serving, configuration: Configuration, canary: CanaryFacts | None) -> None:
    """Archive the start-up log as it is now, with what the server says that it resolved."""
    server = serving.server
    await serving.telemetry.sample()  # from then on it knows its devices
    if bench.client_range_path.exists():  # a host that was never calibrated has none
        await bench.recorder.archive(CLIENT_RANGE, bench.client_range_path, session_id=serving.session_id)
    facts = SessionFacts(
        startup_ns=server.startup_ns or None,
        argv=server.spec.argv,
        log_sha256=await _archive_log(bench, "startup-log", serving),
        resolved_config=configuration.values,
        config_source=configuration.source,
        memory=server.memory(),
        memory_breakdown=await asyncio.to_thread(_memory, bench, serving, configuration),
        devices=serving.telemetry.devices,
        warnings=server.warnings(),
        canary=canary,
        flags_left_out=server.spec.left_out,
    )
    await bench.recorder.describe_session(serving.session_id, facts)


def _memory(bench: Bench, serving: Serving, configuration: Configuration) -> MemoryBreakdown:
    """Row by row as the server started; its peak is in the series of its runs."""
    arm = bench.arm(serving.arm)
    facts = memory_facts(
        read_log(serving.server.log_path),
        configuration.values,
        method=arm.speculation.method,
        target=bench.model_paths[bench.manifest.target_model],
        draft=bench.model_paths.get(arm.draft_or_speculator),
        capacity_bytes=_capacity_bytes(serving.telemetry),
    )
    return breakdown(facts)


def _capacity_bytes(telemetry: Telemetry) -> int:
    """Of the devices, or of the host where there is none."""
    return sum(device.memory_bytes for device in telemetry.devices) or psutil.virtual_memory().total


async def _archive_log(bench: Bench, kind: str, serving: Serving) -> str:
    """Store the log with secrets redacted; returns its sha256."""
    log_path = serving.server.log_path
    redacted = log_path.with_suffix(".redacted")
    text = await asyncio.to_thread(lambda: log_lines.redact(read_log(log_path)))
    redacted.write_text(text)
    return await bench.recorder.archive(kind, redacted, session_id=serving.session_id)
