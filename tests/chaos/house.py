"""A whole deployment of its own that things can be done to: Postgres, Redis, a Celery worker and engines.

Leases are short and idle workers look often, so that what takes a minute in earnest takes seconds here.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
import psycopg
from alembic import command as alembic
from pydantic import SecretStr

from app import embedded
from app.db.session import Database
from app.domain.evidence import ExperimentEvidence
from app.domain.lifecycle import RunState
from app.domain.manifest import Manifest
from app.domain.report import build_report
from app.domain.trace import Trace
from app.evidence.repository import EvidenceRepository
from app.experiments.schemas import ExperimentRead
from app.experiments.service import ExperimentService
from app.settings import PROJECT_ROOT, Settings
from tests.conftest import alembic_config, libpq_url
from tests.factories import BASELINE, NGRAM, make_manifest, make_trace
from tests.fakes.runtime import make_fake_runtime
from worker import accelerators
from worker.engine.containment import TAG_VARIABLE
from worker.identity import hardware, inspect_runtime, software
from worker.models import model_digest

LOADS = (
    {"name": "low", "regime": "latency", "rate_rps": 20.0},
    {"name": "high", "regime": "serving", "rate_rps": 40.0},
)
TRACE = make_trace(loads=LOADS, requests=6, warmup=2, max_tokens=16)
PATIENCE_S = 120.0
"""In which everything here ends, canceling in any state included."""

Row = Mapping[str, Any]


@dataclass
class House:
    """``targets``: alias → dials of the fake engine behind it; all are there before the worker first looks.

    Without targets it is the real runtime of this clone with its models.
    """

    home: Path
    targets: dict[str, dict[str, Any]]
    settings: Settings = field(init=False)
    worker: "subprocess.Popen[bytes] | None" = None

    def __post_init__(self) -> None:
        runtime_root, model_root = self.home / "runtimes", self.home / "models"
        if self.targets:
            make_fake_runtime(runtime_root / "fake")
        else:
            runtime_root, model_root = Settings().runtime_root, Settings().model_root
        for alias, dials in self.targets.items():
            directory = model_root / alias
            directory.mkdir(parents=True)
            (directory / "config.json").write_text(json.dumps({"model_type": "llama", "alias": alias}))
            (directory / "fake.json").write_text(json.dumps(dials))
        self.settings = Settings(
            home=self.home,
            database_url=SecretStr(embedded.start_postgres(self.home)),
            redis_url=SecretStr(embedded.start_redis(self.home)),
            runtime_root=runtime_root,
            model_root=model_root,
            startup_timeout_s=20 if self.targets else 300,
            lease_s=6 if self.targets else 15,
            wake_period_s=1.5,
            hang_timeout_s=2 if self.targets else 30,
            engine_log_bytes_max=8 * 1024**2,
        )
        alembic.upgrade(alembic_config(self.url), "head")

    @property
    def url(self) -> str:
        """Of the database."""
        return self.settings.database_url.get_secret_value()

    def start_worker(self) -> None:
        """The Celery worker as the service starts it."""
        pool = ("--pool", "prefork", "--prefetch-multiplier", "1", "--without-gossip", "--without-mingle", "--beat")
        argv = (sys.executable, "-m", "celery", "--app", "worker.celery_app", "worker", *pool)
        with (self.home / "worker.log").open("ab") as log:
            self.worker = subprocess.Popen(
                (*argv, "--schedule", str(self.home / "beat")),
                cwd=PROJECT_ROOT,
                env={**os.environ, **self._environment()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def stop_worker(self) -> int:
        """As a deployment does: ask, and wait until it has gone; returns its exit code."""
        assert self.worker is not None
        self.worker.terminate()
        return self.worker.wait(90)

    def close(self) -> None:
        """Leave nothing."""
        if self.worker is not None and self.worker.poll() is None:
            self.kill(*processes_below(self.worker.pid), self.worker.pid)
            self.worker.wait()
        self.kill(*engines(self))
        embedded.stop(self.home)

    @staticmethod
    def kill(*pids: int, signal_number: signal.Signals = signal.SIGKILL) -> None:
        """A signal to each that is there."""
        for pid in pids:
            try:
                os.kill(pid, signal_number)
            except ProcessLookupError:
                continue

    @property
    def parent(self) -> int:
        """Pid of the Celery worker itself."""
        assert self.worker is not None
        return self.worker.pid

    def holder(self) -> int:
        """Pid of the Celery child that holds the leased block."""
        [(owner,)] = self.query("SELECT lease_owner FROM block WHERE state = 'LEASED'")
        return int(str(owner).rpartition(":")[2])

    async def replaying(self) -> int:
        """Pid of the process that sends requests at this moment."""
        while True:
            forks = [pid for pid in processes_below(self.holder()) if "worker.replay.child" in command(pid)]
            if len(forks) > 1:  # the first waits for plans and forks the others
                return forks[-1]
            await asyncio.sleep(0.01)

    def query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Rows of the database, asked directly."""
        with psycopg.connect(libpq_url(self.url), autocommit=True) as connection:
            cursor = connection.execute(sql.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def manifest(self, trace: Trace, target: str, **fields: Any) -> Manifest:
        """Two arms at two loads in one block, pinned to this host."""
        reference = f"local:{target}@sha256:{model_digest(self.settings.model_root / target)}"
        document: dict[str, Any] = {
            "name": target,
            "target_model": reference,
            "target_tokenizer": reference,
            "runtime": inspect_runtime(self.settings.runtime_root / ("fake" if self.targets else "cpu")).ref,
            "hardware": hardware().model_dump(),
            "software": software().model_dump(),
            "arms": [BASELINE, NGRAM],
            "loads": list(LOADS),
            "blocks": 1,
        }
        return make_manifest(traces={trace.header.name: trace.digest}, **(document | fields))

    def _environment(self) -> dict[str, str]:
        return environment_of(self.settings)


def environment_of(settings: Settings) -> dict[str, str]:
    """The settings as another process reads them."""
    values = ((name, getattr(settings, name)) for name in type(settings).model_fields)
    plain = ((name, v.get_secret_value() if isinstance(v, SecretStr) else str(v)) for name, v in values)
    return {f"VERDRAFT_{name.upper()}": value for name, value in plain}


@dataclass(frozen=True, slots=True)
class Watched:
    """One experiment in the house."""

    house: House
    database: Database
    manifest: Manifest

    async def read(self) -> ExperimentRead:
        """As the API says it."""
        return await ExperimentService(self.database, self.house.settings).read(self.manifest.digest)

    async def cancel(self) -> None:
        """As a user asks for it."""
        await ExperimentService(self.database, self.house.settings).cancel(self.manifest.digest)

    async def reaches(self, state: str) -> ExperimentRead:
        """Wait until a session is in ``state`` (or for MEASURING, until a run has begun)."""

        def there(now: ExperimentRead) -> bool:
            current = now.current
            if current is None or current.session_state != state:
                return False
            return state != "MEASURING" or current.load is not None

        return await self.until(there)

    async def ends(self) -> ExperimentRead:
        """Wait until it is over and its accelerator is given back."""
        found = await self.until(lambda now: now.state in {"FINISHED", "FAILED", "CANCELED"})
        assert not self.house.query("SELECT name FROM accelerator WHERE state = 'LEASED'")
        return found

    async def until(self, condition: Callable[[ExperimentRead], bool]) -> ExperimentRead:
        """Wait for what must come within two minutes; a real engine takes one of them to start."""
        deadline = time.monotonic() + PATIENCE_S * (1 if self.house.targets else 4)
        while True:
            now = await self.read()
            if condition(now):
                return now
            assert time.monotonic() < deadline, now.model_dump_json(indent=1)
            await asyncio.sleep(0.03)

    async def evidence(self) -> ExperimentEvidence:
        """All that counts."""
        async with self.database.reader() as session:
            return await EvidenceRepository(session).load_evidence(self.manifest.digest)

    async def report(self) -> str:
        """The report's bytes."""
        return build_report(await self.evidence()).model_dump_json()

    @property
    def attempts(self) -> list[int]:
        """Of its blocks."""
        rows = self.house.query(
            "SELECT attempt FROM block WHERE experiment_id = %s ORDER BY index", self.manifest.digest
        )
        return [attempt for (attempt,) in rows]

    def sessions(self) -> set[UUID]:
        """Every session it ever had."""
        rows = self.house.query(
            "SELECT session.id FROM session JOIN block ON block.id = block_id WHERE experiment_id = %s",
            self.manifest.digest,
        )
        return {session_id for (session_id,) in rows}

    async def assert_whole(self, *, arms: set[str] | None = None) -> None:
        """No measured request is missing or there twice, nobody is left behind, and the accelerator is free."""
        evidence = await self.evidence()
        counted = [r for r in evidence.runs if r.state is RunState.SUCCEEDED]
        expected = {
            (block, arm.name, load.name)
            for block in range(self.manifest.blocks)
            for arm in self.manifest.arms
            for load in self.manifest.loads
            if arms is None or arm.name in arms
        }
        assert sorted((r.block, r.arm, r.load) for r in counted) == sorted(expected)
        for run in counted:
            ids = sorted(o.request_id for o in run.observations)
            assert ids == sorted(label.request_id for label in evidence.labels[run.workload] if label.load == run.load)
        self.assert_nobody_left()

    def assert_nobody_left(self) -> None:
        """No process carries a tag of this experiment, and its accelerator is free and unlocked."""
        mine = {str(session_id) for session_id in self.sessions()}
        assert tagged(lambda tag: tag.rpartition(":")[0] in mine) == []
        assert self.house.query("SELECT name, state FROM accelerator") == [("cpu-0", "FREE")]
        assert accelerators.idle(self.house.settings.lock_root, ["cpu-0"]) == ("cpu-0",)


@asynccontextmanager
async def experiment(house: House, target: str, trace: Trace = TRACE, **fields: Any) -> AsyncGenerator[Watched]:
    """Submit one on ``target``."""
    database = Database(house.url)
    manifest = house.manifest(trace, target, **fields)
    async with database.transaction() as session:
        await EvidenceRepository(session).store_trace(trace)
    await ExperimentService(database, house.settings).register(manifest)
    try:
        yield Watched(house, database, manifest)
    finally:
        await database.dispose()


def processes_below(pid: int) -> list[int]:
    """Descendants, nearest first."""
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def command(pid: int) -> str:
    """The command line of a process that may be gone."""
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return ""


def engines(house: House) -> list[int]:
    """Processes of engines that this house has started."""
    known = {str(session_id) for (session_id,) in house.query("SELECT id FROM session")}
    return tagged(lambda tag: tag.rpartition(":")[0] in known)


def tagged(wanted: Callable[[str], bool]) -> list[int]:
    """Live processes of engines whose tag is wanted."""
    return [pid for pid, tag in _tags() if wanted(tag)]


def _tags() -> Iterator[tuple[int, str]]:
    for process in psutil.process_iter():
        try:
            environment = process.environ()
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
        except psutil.Error:
            continue
        if TAG_VARIABLE in environment:
            yield process.pid, environment[TAG_VARIABLE]
