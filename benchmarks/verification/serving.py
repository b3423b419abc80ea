"""The demo's own servers, started and stopped as an experiment does, several at a time."""

import json
import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from tokenizers import Tokenizer

from app.demo.manifest import DRAFT_ALIAS, TARGET_ALIAS, Platform, demo_manifest
from app.demo.workloads import DemoLoad, build_traces, demo_loads
from app.domain.launch import LaunchSpec, launch_spec
from app.domain.manifest import Arm, Manifest
from app.domain.trace import Trace
from app.settings import Settings
from tests.fakes.defective import words_of
from tests.fakes.defects import Defect, Words
from tests.fakes.dials import FILE_NAME
from tests.fakes.proxy import Proxy, proxied
from tests.fakes.runtime import make_fake_runtime
from worker.cores import split_cores
from worker.engine.server import VllmServer
from worker.identity import hardware, inspect_runtime, software
from worker.models import model_digest
from worker.pins import Pins, resolve_pins

RUNTIME = "cpu"
STARTUP_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class Site:
    """The demo as frozen for this host, and where its parts lie."""

    settings: Settings
    manifest: Manifest
    traces: dict[str, Trace]
    loads: tuple[DemoLoad, ...]
    pins: Pins

    def arm(self, name: str) -> Arm:
        return next(arm for arm in self.manifest.arms if arm.name == name)

    @property
    def words(self) -> Words:
        """The text of the target's tokens."""
        return words_of(self.pins.model_paths[self.manifest.target_model])


def demo_site(settings: Settings, rates_rps: tuple[float, float]) -> Site:
    """Raises ``DomainError`` where the runtime or a model is missing."""
    tokenizer = Tokenizer.from_file(str(settings.model_root / TARGET_ALIAS / "tokenizer.json"))
    loads = demo_loads(*rates_rps)
    traces = build_traces(tokenizer, loads)
    manifest = demo_manifest(_platform(settings), loads, traces, blocks=2, full=False)
    return Site(settings, manifest, {t.header.name: t for t in traces}, loads, resolve_pins(manifest, settings))


def on_the_fake(settings: Settings, directory: Path) -> Settings:
    """The same tokenizer under a small model of words, which samples and stops as asked."""
    make_fake_runtime(directory / "runtimes" / RUNTIME)
    for alias in (TARGET_ALIAS, DRAFT_ALIAS):
        shutil.copytree(settings.model_root / alias, directory / "models" / alias)
    (directory / "models" / TARGET_ALIAS / FILE_NAME).write_text(json.dumps({"is_faithful": True}))
    roots = {"home": directory / "home", "runtime_root": directory / "runtimes", "model_root": directory / "models"}
    return settings.model_copy(update=roots)


def _platform(settings: Settings) -> Platform:
    def local(alias: str) -> str:
        return f"local:{alias}@sha256:{model_digest(settings.model_root / alias)}"

    return Platform(
        runtime=inspect_runtime(settings.runtime_root / RUNTIME).ref,
        target=local(TARGET_ALIAS),
        draft=local(DRAFT_ALIAS),
        hardware=hardware(),
        software=software(),
    )


@asynccontextmanager
async def serving(site: Site, arm: str) -> AsyncGenerator[VllmServer]:
    """A server of ``arm`` that has answered its canary."""
    with tempfile.TemporaryDirectory(prefix="vd-", ignore_cleanup_errors=True) as directory:
        scratch = Path(directory)
        facts = site.settings.home / "model-facts" / site.pins.runtime_digest
        server = VllmServer(
            _launch(site, site.arm(arm), scratch),
            scratch / "engine.log",
            tag=f"bench:{uuid4()}",
            startup_timeout_s=STARTUP_TIMEOUT_S,
            model_facts_path=facts,
        )
        async with server:
            yield server


@asynccontextmanager
async def spoilt(site: Site, server: LaunchSpec, defect: Defect) -> AsyncGenerator[tuple[LaunchSpec, Proxy]]:
    """The same server as it is seen through a proxy with ``defect``."""
    with tempfile.TemporaryDirectory(prefix="vd-") as directory:
        socket_path = f"{directory}/s"
        async with proxied(server.socket_path, socket_path, defect, site.words) as proxy:
            yield replace(server, socket_path=socket_path), proxy


def _launch(site: Site, arm: Arm, scratch: Path) -> LaunchSpec:
    manifest, pins, cores = site.manifest, site.pins, split_cores()
    draft = pins.model_paths.get(arm.draft_or_speculator)
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
        serve_flags=None if pins.runtime.unavailable else pins.runtime.serve_flags,
    )
