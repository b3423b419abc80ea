"""Conduct experiments on the fake runtime: real Postgres, real processes, real sockets; only the model is simulated."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.db.session import Database
from app.domain.evidence import ExperimentEvidence
from app.domain.manifest import Manifest
from app.domain.trace import Trace
from app.evidence.repository import EvidenceRepository
from app.experiments.service import ExperimentService
from app.settings import Settings
from tests.factories import BASELINE, NGRAM, make_manifest, make_trace
from tests.fakes.runtime import make_fake_runtime
from worker.conductor import conduct_queue
from worker.identity import hardware, inspect_runtime, software
from worker.models import model_digest

LOADS = (
    {"name": "low", "regime": "latency", "rate_rps": 20.0},
    {"name": "high", "regime": "serving", "rate_rps": 40.0},
)
DRAFT_ARM = {"name": "draft-k4", "speculation": {"method": "draft_model", "num_speculative_tokens": 4}}


@dataclass(frozen=True, slots=True)
class Place:
    """A host with a fake runtime and a target whose dials are ``dials``."""

    settings: Settings
    database: Database
    runtime_root: Path
    model_root: Path
    runtime: str = "fake"
    target: str = "target"

    async def submit(self, trace: Trace | None = None, **fields: Any) -> Manifest:
        """Register a small experiment pinned to this host; keywords as in ``manifest_document``."""
        trace = trace or make_trace(loads=LOADS, requests=6, warmup=2)
        document: dict[str, Any] = {
            "target_model": self.model_reference(self.target),
            "target_tokenizer": self.model_reference(self.target),
            "runtime": inspect_runtime(self.runtime_root / self.runtime).ref,
            "hardware": hardware().model_dump(),
            "software": software().model_dump(),
            "arms": [BASELINE, NGRAM],
            "loads": list(LOADS),
            "blocks": 1,
        }
        manifest = make_manifest(traces={"tasks": trace.digest}, **(document | fields))
        async with self.database.transaction() as session:
            await EvidenceRepository(session).store_trace(trace)
        await ExperimentService(self.database, self.settings).register(manifest)
        return manifest

    async def conduct(self) -> None:
        """What a woken worker does: everything that is queued."""
        await conduct_queue(self.settings, worker="test:1")

    async def state(self, manifest: Manifest) -> str:
        """The experiment's state as the API says it."""
        return (await ExperimentService(self.database, self.settings).read(manifest.digest)).state

    async def evidence(self, manifest: Manifest) -> ExperimentEvidence:
        """What was recorded, without the void attempts that were repeated: any host may lag for a moment."""
        evidence = await self.every_attempt(manifest)
        last = {(r.block, r.arm, r.workload, r.load): r for r in evidence.runs}
        return evidence.model_copy(update={"runs": tuple(last.values())})

    async def every_attempt(self, manifest: Manifest) -> ExperimentEvidence:
        """All that was recorded."""
        async with self.database.reader() as session:
            return await EvidenceRepository(session).load_evidence(manifest.digest)

    def model_reference(self, alias: str) -> str:
        """``local:<alias>@sha256:…`` of a directory under the model root."""
        return f"local:{alias}@sha256:{model_digest(self.model_root / alias)}"


PlaceMaker = Callable[..., Place]
"""Makes a place; keywords are the fake engine's dials."""


def make_place(settings: Settings, database: Database, root: Path, **dials: Any) -> Place:
    """A place under ``root``; ``dials`` are those of ``tests/fakes/dials.py``."""
    model_root, runtime_root = root / "models", root / "runtimes"
    make_fake_runtime(runtime_root / "fake")
    for alias in ("target", "draft"):
        (model_root / alias).mkdir(parents=True)
        (model_root / alias / "config.json").write_text(json.dumps({"model_type": "llama", "alias": alias}))
    (model_root / "target" / "fake.json").write_text(json.dumps(dials))
    roots = {"model_root": model_root, "runtime_root": runtime_root}
    own = settings.model_copy(update={**roots, "startup_timeout_s": 3.0, "hang_timeout_s": 2.0, "lease_s": 12.0})
    return Place(own, database, runtime_root, model_root)
