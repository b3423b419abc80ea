"""One case on the real engine: start it, send the canary and two short requests, see what it drafted, stop it."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from app.domain.errors import DomainError
from app.domain.evidence import SessionEvidence
from app.domain.launch import LaunchSpec
from app.domain.lifecycle import SessionState
from app.domain.manifest import Arm, Manifest
from app.domain.startup_gates import session_problems
from app.domain.vocabulary import NS_PER_S, FailureClass
from worker.engine.log_lines import find_cause
from worker.engine.scrape import ScrapeFailed, client
from worker.engine.server import StartupFailed, VllmServer
from worker.matrix.outcome import Ending, EngineOutcome

STARTUP_TIMEOUT_S = 900.0
REQUEST_TIMEOUT_S = 600.0
"""Long, since only an engine's own words count here; a busy host must not pass for a refusal."""
REQUEST_TOKENS = 24
PROMPTS = ([11, 12, 13, 14] * 6, [21, 22, 23] * 8)
"""Repetitive, so that a lookup finds something; the ids are in every vocabulary here."""
WORDS_MAX = 300
DYING_S = 5.0


def with_speculation(spec: LaunchSpec, speculation: dict[str, Any]) -> LaunchSpec:
    """Target-only's launch with a speculative configuration that no manifest would give."""
    compact = json.dumps(speculation, sort_keys=True, separators=(",", ":"))
    return replace(spec, argv=(*spec.argv, "--speculative-config", compact))


async def attempt(
    spec: LaunchSpec, log_path: Path, *, asked: tuple[Manifest, Arm] | None, model_facts_path: Path, tag: str
) -> EngineOutcome:
    """What the engine does; ``asked`` is the manifest's arm, against which its statements are held.

    Raises ``DomainError`` where it says nothing within the time limits: that is no answer.
    """
    server = VllmServer(
        spec,
        log_path,
        tag=tag,
        startup_timeout_s=STARTUP_TIMEOUT_S,
        canary_timeout_s=REQUEST_TIMEOUT_S,
        model_facts_path=model_facts_path,
    )
    try:
        async with server:
            return await _serve(server, asked)
    except StartupFailed as error:
        if error.failure.failure_class is FailureClass.HANG:
            raise _no_answer(error.failure.message, log_path) from error
        ending = Ending.DIED if error.was_healthy else Ending.REFUSED
        words = error.failure.message.removeprefix("the first request failed: ")
        return EngineOutcome(ending=ending, words=_one_line(words), warnings=server.warnings())


async def _serve(server: VllmServer, asked: tuple[Manifest, Arm] | None) -> EngineOutcome:
    try:
        configuration = await server.configuration()
        await _send_requests(server)
        canary = await server.canary_facts()
    except (ScrapeFailed, httpx.HTTPError) as error:
        await asyncio.sleep(DYING_S)  # an engine that fails takes its API server with it, but not at once
        cause = find_cause(server.log_path.read_text(errors="replace")) or f"{type(error).__name__}: {error}"
        if server.alive() and not isinstance(error, httpx.HTTPStatusError):
            raise _no_answer(cause, server.log_path) from error
        return EngineOutcome(ending=Ending.DIED, words=_one_line(cause), warnings=server.warnings())
    session = SessionEvidence(
        block=0,
        arm=asked[1].name if asked else "",
        position=0,
        state=SessionState.SUCCEEDED,
        startup_ns=server.startup_ns,
        resolved_config=configuration.values,
        canary=canary,
    )
    return EngineOutcome(
        ending=Ending.SERVED,
        drafted=canary.drafted,
        accepted=canary.accepted,
        warnings=server.warnings(),
        problems=tuple(session_problems(*asked, session)) if asked else (),
        resolved=configuration.values,
        startup_s=round(server.startup_ns / NS_PER_S, 1),
    )


async def _send_requests(server: VllmServer) -> None:
    """Two more completions after the canary; raises ``httpx.HTTPError`` where one is not answered well."""
    async with client(server.socket_path, REQUEST_TIMEOUT_S) as engine:
        for prompt in PROMPTS:
            body = {
                "model": server.spec.served_model_name,
                "prompt": prompt,
                "max_tokens": REQUEST_TOKENS,
                "temperature": 0,
                "ignore_eos": True,
            }
            (await engine.post("/v1/completions", json=body)).raise_for_status()


def _no_answer(words: str, log_path: Path) -> DomainError:
    return DomainError.of("engine", words, f"try again on a quiet host; its log is {log_path}")


def _one_line(words: str) -> str:
    return " ".join(words.split())[:WORDS_MAX]
