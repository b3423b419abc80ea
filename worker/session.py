"""The story of one session: a fresh server of one arm, warmed up, measured, drained and stopped.

A failure of the engine ends this session only; it is recorded with its log, and the other arms go on. What this
service or its host broke interrupts the block. A session that is canceled is closed by whoever ends its block.
"""

import asyncio
from pathlib import Path
from uuid import UUID

import structlog
from structlog.contextvars import bound_contextvars

from app.domain.evidence import Failure
from app.domain.lifecycle import SessionState
from app.domain.retry import is_retried
from app.domain.schedule import PlannedSession
from app.domain.startup import CanaryFacts
from app.runs.facts import SessionFacts
from worker.accelerators import back_to_baseline
from worker.bench import Bench, Interrupted, RunFailed
from worker.engine import log_lines
from worker.engine.log_file import read_log
from worker.engine.scrape import ScrapeFailed
from worker.engine.server import Configuration, StartupFailed, VllmServer
from worker.measurement import conduct_run, warm_up
from worker.recorder import Recorder
from worker.scratch import scratch_directory

log = structlog.get_logger()


async def conduct_session(bench: Bench, planned: PlannedSession) -> None:
    """Conduct one session to its end; failures of the engine are recorded, not raised."""
    recorder = bench.recorder
    session_id = await recorder.start_session(planned.arm, planned.position)
    with scratch_directory() as scratch, bound_contextvars(session=str(session_id), arm=planned.arm):
        try:
            await _serve(bench, planned, session_id, scratch)
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


async def _serve(bench: Bench, planned: PlannedSession, session_id: UUID, scratch: Path) -> None:
    """Start the server, measure, stop it; the log is archived however that ends."""
    spec = bench.launch(planned.arm, scratch)
    server = VllmServer(
        spec,
        scratch / "engine.log",
        tag=f"{session_id}:{bench.recorder.block.fence}",
        startup_timeout_s=bench.startup_timeout_s,
        model_facts_path=bench.model_facts_path,
        inherited=bench.held.descriptors,
        log_bytes_max=bench.limits.log_bytes_max,
    )
    try:
        async with server:
            await _warm_up(bench, session_id, server, scratch)
            await _measure(bench, planned, session_id, server, scratch)
    except StartupFailed:
        await _describe(bench, session_id, server, server.logged_configuration(), None)
        raise
    finally:
        await _archive_log(bench, "engine-log", server.log_path, session_id)
        # Some warnings come only while requests are served.
        await bench.recorder.record_warnings(session_id, await asyncio.to_thread(server.warnings))
        await back_to_baseline(bench.held)


async def _warm_up(bench: Bench, session_id: UUID, server: VllmServer, scratch: Path) -> None:
    """Warm up, and meanwhile ask what the server resolved: vLLM takes seconds to say."""
    canary = await server.canary_facts()
    await bench.recorder.move_session(session_id, SessionState.WARMING)
    asking = (warm_up(bench, server, scratch), server.configuration())
    warmed, configuration = await asyncio.gather(*asking, return_exceptions=True)
    if isinstance(configuration, BaseException):  # of a server that is gone, the log still says what was resolved
        configuration = server.logged_configuration()
    await _describe(bench, session_id, server, configuration, canary)
    if warmed is not None:
        raise warmed


async def _measure(bench: Bench, planned: PlannedSession, session_id: UUID, server: VllmServer, scratch: Path) -> None:
    move = bench.recorder.move_session
    await move(session_id, SessionState.MEASURING)
    for condition in planned.runs:
        await conduct_run(bench, condition, session_id, server, scratch)
    await move(session_id, SessionState.DRAINING)


async def _describe(
    bench: Bench, session_id: UUID, server: VllmServer, configuration: Configuration, canary: CanaryFacts | None
) -> None:
    """Archive the start-up log as it is now, with what the server says that it resolved."""
    facts = SessionFacts(
        startup_ns=server.startup_ns or None,
        argv=server.spec.argv,
        log_sha256=await _archive_log(bench, "startup-log", server.log_path, session_id),
        resolved_config=configuration.values,
        config_source=configuration.source,
        memory=server.memory(),
        warnings=server.warnings(),
        canary=canary,
        flags_left_out=server.spec.left_out,
    )
    await bench.recorder.describe_session(session_id, facts)


async def _archive_log(bench: Bench, kind: str, log_path: Path, session_id: UUID) -> str:
    """Store the log with secrets redacted; returns its sha256."""
    redacted = log_path.with_suffix(".redacted")
    text = await asyncio.to_thread(lambda: log_lines.redact(read_log(log_path)))
    redacted.write_text(text)
    return await bench.recorder.archive(kind, redacted, session_id=session_id)
