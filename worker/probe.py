"""A short look at what this host can do, so that the demo's rates suit it; the rates are then frozen.

One target-only server, a fixed number of clients that each wait for their answer (closed loop),
on the traces' own kind of prompts. Nothing measured here enters a verdict.
"""

import asyncio
import math
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import httpx

from app.domain.errors import DomainError
from app.domain.launch import LaunchSpec, launch_spec
from app.domain.manifest import Manifest
from app.domain.trace import Trace, TraceRequest
from app.domain.vocabulary import WARMUP
from app.settings import Settings
from worker.accelerators import whole_host
from worker.cores import split_cores
from worker.engine.server import StartupFailed, VllmServer
from worker.pins import resolve_pins
from worker.requests import COMPLETIONS_PATH, completion_body

REQUEST_TIMEOUT_S = 120
CLIENTS = 12
REQUESTS_TOGETHER = 72
REQUESTS_ALONE = 8
LATENCY_SHARE = 0.25
ALONE_SHARE = 0.6
LATENCY_SHARE_MIN = 0.1
"""A disturbed look must not leave the latency load with too few requests for its strata."""
NEAR_SATURATION_SHARE = 0.7
LOCK_ATTEMPTS = 40
LOCK_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class Capacity:
    """Requests per second of the slower workload: one client alone, and ``CLIENTS`` together."""

    alone_rps: float
    together_rps: float

    @property
    def latency_rps(self) -> float:
        """A load at which requests seldom meet, and which is far from what the server can do."""
        wanted = min(LATENCY_SHARE * self.together_rps, ALONE_SHARE * self.alone_rps)
        return two_digits(max(wanted, LATENCY_SHARE_MIN * self.together_rps))

    @property
    def near_saturation_rps(self) -> float:
        """A load that a somewhat slower session can still sustain."""
        return two_digits(NEAR_SATURATION_SHARE * self.together_rps)


async def probe(settings: Settings, manifest: Manifest, traces: Sequence[Trace]) -> Capacity:
    """Measure the target-only arm of ``manifest`` on its traces' last load; takes half a minute and a start-up.

    Raises ``DomainError`` where the pins are not on this host, the accelerator is taken, or the server does not start.
    """
    log_path = settings.home / "logs" / "probe.log"
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="verdraft-probe-") as scratch:
        spec = _spec(settings, manifest, Path(scratch))
        tag, timeout_s = f"probe:{uuid4()}", settings.startup_timeout_s
        async with _accelerator(settings):
            try:
                async with VllmServer(spec, log_path, tag=tag, startup_timeout_s=timeout_s):
                    return await _capacity(spec, manifest, traces)
            except httpx.HTTPError as error:
                message = f"the engine stopped answering ({type(error).__name__})"
                raise DomainError.of("probe", message, f"read {log_path}, then try again") from error
            except StartupFailed as error:
                message = f"the target-only server did not start: {error.failure.message}"
                raise DomainError.of("probe", message, f"the log is {error.log_path}") from error


def two_digits(rate_rps: float) -> float:
    """Round to two significant digits, so that a frozen rate reads well."""
    return round(rate_rps, 1 - math.floor(math.log10(rate_rps)))


def _spec(settings: Settings, manifest: Manifest, scratch: Path) -> LaunchSpec:
    pins, cores = resolve_pins(manifest, settings), split_cores()
    return launch_spec(
        manifest,
        manifest.baseline,
        executable=str(pins.executable),
        target_path=str(pins.model_paths[manifest.target_model]),
        tokenizer_path=str(pins.model_paths[manifest.target_tokenizer]),
        draft_path=None,
        socket_path=str(scratch / "vllm.sock"),
        cache_root=str(scratch / "cache"),
        engine_cores=",".join(map(str, cores.engine)),
        tree_cores=cores.engine_tree,
        serve_flags=pins.runtime.serve_flags or None,
    )


@asynccontextmanager
async def _accelerator(settings: Settings) -> AsyncGenerator[None, None]:
    """Hold the host's lock; an idle worker holds it for an instant at each wake, so try for a while."""
    for _ in range(LOCK_ATTEMPTS):
        with whole_host(settings) as ours:
            if ours:
                yield
                return
        await asyncio.sleep(LOCK_PAUSE_S)
    raise DomainError.of("probe", "an experiment is running on this host", "wait for it, or cancel it, then try again")


async def _capacity(spec: LaunchSpec, manifest: Manifest, traces: Sequence[Trace]) -> Capacity:
    transport = httpx.AsyncHTTPTransport(uds=spec.socket_path)
    async with httpx.AsyncClient(transport=transport, base_url="http://engine", timeout=REQUEST_TIMEOUT_S) as client:
        for trace in traces:
            await _closed_loop(client, _bodies(trace.of_load(WARMUP), spec, manifest), clients=4)
        alone = [await _rate(client, trace, spec, manifest, REQUESTS_ALONE, clients=1) for trace in traces]
        together = [await _rate(client, trace, spec, manifest, REQUESTS_TOGETHER, clients=CLIENTS) for trace in traces]
    return Capacity(min(alone), min(together))


async def _rate(
    client: httpx.AsyncClient, trace: Trace, spec: LaunchSpec, manifest: Manifest, count: int, *, clients: int
) -> float:
    requests = trace.of_load(trace.header.loads[-1].name)[:count]
    started_ns = time.monotonic_ns()
    await _closed_loop(client, _bodies(requests, spec, manifest), clients)
    return len(requests) / ((time.monotonic_ns() - started_ns) / 1e9)


async def _closed_loop(client: httpx.AsyncClient, bodies: Sequence[bytes], clients: int) -> None:
    waiting = iter(bodies)

    async def one_client() -> None:
        for body in waiting:  # shared: each client takes the next body when its last answer is complete
            answer = await client.post(COMPLETIONS_PATH, content=body, headers={"content-type": "application/json"})
            if answer.is_error:
                raise DomainError.of(
                    "probe", f"the engine answered {answer.status_code}: {answer.text[:200]}", "read its log"
                )

    await asyncio.gather(*(one_client() for _ in range(clients)))


def _bodies(requests: Sequence[TraceRequest], spec: LaunchSpec, manifest: Manifest) -> list[bytes]:
    return [completion_body(r, spec.served_model_name, manifest.sampling, salt="probe") for r in requests]
