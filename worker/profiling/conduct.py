"""Profile a manifest's arms one after the other, each on a fresh server of its own launch.

Warm up, then the same requests three times: without the profiler, with it, and without, so that what it costs is known.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import httpx

from app.domain.canonical import digest
from app.domain.errors import DomainError
from app.domain.launch import LaunchSpec, launch_spec
from app.domain.manifest import Arm, Manifest
from app.domain.step_profile import StepProfile, step_profile
from app.domain.trace import TraceRequest
from app.domain.vocabulary import Method, Outcome
from app.settings import Settings
from worker.accelerators import is_gpu, offered, whole_host
from worker.cores import split_cores
from worker.engine.scrape import Scrape, ScrapeFailed, client, quiesced
from worker.engine.server import StartupFailed, VllmServer
from worker.pins import Pins, resolve_pins
from worker.profiling.launching import with_profiler
from worker.profiling.outcome import ArmProfile, engine_step
from worker.profiling.requests import Chosen
from worker.profiling.trace_file import find_trace, read_spans
from worker.replay.plan import SPIN_NS
from worker.replay.process import ReplayClient, ReplayFailed
from worker.requests import replay_plan

HOME = "profiles"
STOP_TIMEOUT_S = 1_800.0
"""The engine tabulates and writes its trace before it answers; minutes on a small host."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wish:
    """What to profile: these arms under these requests."""

    manifest: Manifest
    arms: tuple[Arm, ...]
    chosen: Chosen
    concurrency: int


@dataclass(frozen=True, slots=True)
class _Place:
    """What all arms share."""

    settings: Settings
    pins: Pins
    client: ReplayClient
    wish: Wish


async def profile_arms(settings: Settings, wish: Wish, say: Say) -> list[ArmProfile]:
    """Every arm that is wished for.

    Raises ``DomainError`` where an experiment holds the host, a pin is not here, or an engine fails.
    """
    with whole_host(settings) as ours:
        if not ours:
            raise DomainError.of("accelerator", "an experiment is running on this host", "wait for it, or cancel it")
        pins = await asyncio.to_thread(resolve_pins, wish.manifest, settings)
        async with ReplayClient() as replaying:
            place = _Place(settings, pins, replaying, wish)
            return [await _profile(place, arm, say) for arm in wish.arms]


async def _profile(place: _Place, arm: Arm, say: Say) -> ArmProfile:
    kept = _directory(place, arm)
    say(f"{arm.name}: starting its engine")
    with tempfile.TemporaryDirectory(prefix="vd-") as scratch:
        spec = with_profiler(_launch(place, arm, Path(scratch)), kept, _flags(place.pins))
        try:
            async with _server(place, spec, kept / "engine.log") as server:
                scrapes = await _stretches(place, server, Path(scratch), lambda words: say(f"{arm.name}: {words}"))
        except StartupFailed as error:
            raise _failed(arm, error.failure.message, kept) from error
        except (ScrapeFailed, ReplayFailed, httpx.HTTPError) as error:
            raise _failed(arm, f"{type(error).__name__}: {error}", kept) from error
    trace = find_trace(kept)
    profile = await asyncio.to_thread(_read, trace, arm)
    return _outcome(place.wish, arm, profile, scrapes, trace)


def _outcome(wish: Wish, arm: Arm, profile: StepProfile, scrapes: Sequence[Scrape], trace: Path) -> ArmProfile:
    at = [scrape.exposition for scrape in scrapes]
    return ArmProfile(
        arm=arm.name,
        method=arm.speculation.method,
        k=arm.speculation.num_speculative_tokens,
        load=wish.chosen.load,
        requests=len(wish.chosen.requests),
        concurrency=wish.concurrency,
        profile=profile,
        before=engine_step(*at[0:2]),
        profiled=engine_step(*at[2:4]),
        after=engine_step(*at[4:6]),
        trace_path=str(trace),
    )


def _read(trace: Path, arm: Arm) -> StepProfile:
    return step_profile(read_spans(trace), drafts=arm.speculation.method is not Method.TARGET_ONLY)


async def _stretches(place: _Place, server: VllmServer, scratch: Path, say: Say) -> list[Scrape]:
    """Six scrapes at rest: around the stretch before, the profiled one, and the one after."""
    chosen, path = place.wish.chosen, server.socket_path
    scrapes: list[Scrape] = []

    async def stretch(name: str) -> None:
        scrapes.append(await quiesced(path))
        await _send(place, server, chosen.requests, scratch / name)
        scrapes.append(await quiesced(path))

    say("warming up")
    await _send(place, server, chosen.warmup, scratch / "warmup")
    say(f"{len(chosen.requests)} requests without the profiler")
    await stretch("before")
    say("the same with the profiler")
    await _tell(path, "start_profile")
    await stretch("profiled")
    say("the engine writes its trace")
    await _tell(path, "stop_profile")
    say("the same without the profiler")
    await stretch("after")
    return scrapes


async def _tell(socket_path: str, what: str) -> None:
    async with client(socket_path, STOP_TIMEOUT_S) as engine:
        (await engine.post(f"/{what}")).raise_for_status()


async def _send(place: _Place, server: VllmServer, requests: tuple[TraceRequest, ...], directory: Path) -> None:
    """Replay in a closed loop; each stretch has its own salt. Raises ``DomainError`` where one is not served."""
    cores = split_cores()
    plan = replay_plan(
        requests,
        place.wish.manifest.sampling,
        salt=digest(f"profile/{directory.name}".encode())[:32],
        server=server.spec,
        cores=cores.client,
        spin_ns=SPIN_NS if cores.client_is_alone else 0,
        clients=place.wish.concurrency,
    )
    record = await place.client.replay(plan, directory)
    failed = next((o for o in record.observations if o.outcome is not Outcome.SUCCESS), None)
    if failed is not None:
        words = f"request {failed.request_id}: {failed.outcome}, {failed.error}"
        raise DomainError.of("engine", words, f"its log is {server.log_path}")


def _launch(place: _Place, arm: Arm, scratch: Path) -> LaunchSpec:
    manifest, pins, cores = place.wish.manifest, place.pins, split_cores()
    draft = pins.model_paths.get(arm.draft_or_speculator)
    gpus = [name for name in offered(place.settings).names if is_gpu(name)]
    return launch_spec(
        manifest,
        arm,
        executable=str(pins.executable),
        target_path=str(pins.model_paths[manifest.target_model]),
        tokenizer_path=str(pins.model_paths[manifest.target_tokenizer]),
        draft_path=None if draft is None else str(draft),
        socket_path=str(scratch / "s"),
        cache_root=str(scratch / "cache"),
        engine_cores=",".join(map(str, cores.engine)),
        tree_cores=cores.engine_tree,
        devices=gpus[: manifest.accelerators_needed],
        serve_flags=_flags(pins),
    )


def _flags(pins: Pins) -> tuple[str, ...] | None:
    return None if pins.runtime.unavailable else pins.runtime.serve_flags


def _server(place: _Place, spec: LaunchSpec, log_path: Path) -> VllmServer:
    return VllmServer(
        spec,
        log_path,
        tag=f"profile:{uuid4()}",
        startup_timeout_s=place.settings.startup_timeout_s,
        model_facts_path=place.settings.home / "model-facts" / place.pins.runtime_digest,
    )


def _directory(place: _Place, arm: Arm) -> Path:
    """Where the arm's log and trace are kept until it is profiled again."""
    directory = place.settings.home / HOME / place.wish.manifest.digest[:12] / arm.name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory


def _failed(arm: Arm, message: str, kept: Path) -> DomainError:
    return DomainError.of(f"arms.{arm.name}", message, f"its log is {kept / 'engine.log'}")
