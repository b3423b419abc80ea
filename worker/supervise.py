"""Bring the whole service up on one host and take it down again, losing nothing.

Order up: checks, Postgres and Redis, migrations, web, worker. Order down: the reverse. One lock lets
two commands at once follow each other; what already runs is left alone.
"""

import asyncio
import errno
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
from pydantic import SecretStr

from app import embedded
from app.boundary import require_access
from app.db.session import Database
from app.domain.errors import DomainError
from app.leases.repository import LeaseRepository
from app.settings import PROJECT_ROOT, Settings
from worker import services
from worker.engine.containment import sweep_orphans
from worker.filelock import exclusive
from worker.services import Register, Service, Wanted

FREE_BYTES_MIN = 1024**3
READY_TIMEOUT_S = 90.0
GRACE_S = {"web": 20.0, "worker": 120.0}
"""A worker may wait half a minute for its engine to end by itself and a minute for what it killed to be gone."""
"""A worker stops its engine and hands its block over before it goes."""
_TAIL_CHARS = 1500

Say = Callable[[str], None]


class StartRefused(DomainError):
    """Something on this host keeps the service from starting."""

    title = "The service cannot start"


@dataclass(frozen=True, slots=True)
class Status:
    """One line of ``verdraft status``."""

    name: str
    running: bool
    detail: str


def up(settings: Settings, say: Say) -> Settings:
    """Start what does not run; returns the settings with the URLs in force. Raises ``DomainError`` with the remedy."""
    require_access(settings.access, settings.host)
    settings.home.mkdir(parents=True, exist_ok=True)
    with exclusive(_lock(settings), waiting=lambda: say("another up or down is under way here; waiting for it")):
        register = Register(settings.home / "services.json")
        known = register.read()
        _require_space(settings.home)
        _require_port(settings, known.get("web"))
        _keep_off_the_engine_core()
        settings = _with_urls(settings, say)
        _migrate(settings, say)
        if "worker" not in known:
            asyncio.run(_release_blocks(settings, say))
        for wanted in (_web(settings), _worker(settings)):
            _ensure(wanted, known, settings, say)
            register.write(known)
        _wait_until_ready(settings, known["web"])
    return settings


def down(settings: Settings, say: Say) -> None:
    """Stop everything ``up`` started, engines included. What was recorded stays; ``up`` resumes from it."""
    if not settings.home.is_dir():
        return
    with exclusive(_lock(settings), waiting=lambda: say("another up or down is under way here; waiting for it")):
        register = Register(settings.home / "services.json")
        known = register.read()
        for name in ("worker", "web"):
            if name in known:
                say(f"stopping {name}")
                services.stop([known[name]], grace_s=GRACE_S[name])
        register.write({})
        sweep_orphans()
        say("stopping Redis and Postgres")
        embedded.stop(settings.home)


def stop_worker(settings: Settings, say: Say) -> None:
    """Stop only what measures: it hands its block over, and everything else still answers."""
    register = Register(settings.home / "services.json")
    known = register.read()
    if "worker" in known:
        say("stopping worker")
        services.stop([known.pop("worker")], grace_s=GRACE_S["worker"])
        register.write(known)


def status(settings: Settings) -> list[Status]:
    """What runs, as found by asking it."""
    if not settings.home.is_dir():
        return []
    known = Register(settings.home / "services.json").read()
    found = [Status(name, name in known, _pid(known.get(name))) for name in ("web", "worker")]
    sockets = embedded.socket_directory(settings.home)
    found.append(Status("postgres", embedded.postgres_runs(settings.home), str(sockets / "postgres")))
    found.append(Status("redis", embedded.redis_runs(settings.home), str(sockets / "redis.sock")))
    return found


def url(settings: Settings) -> str:
    """Where the web process is reached from this host."""
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(settings.host, settings.host)  # noqa: S104 - translated, not bound
    return f"http://{host}:{settings.port}"


def _lock(settings: Settings) -> Path:
    return settings.home / "up.lock"


def _pid(service: Service | None) -> str:
    return f"pid {service.pid}" if service else "-"


def _require_space(home: Path) -> None:
    free = shutil.disk_usage(home).free
    if free < FREE_BYTES_MIN:
        message = f"{home} has {free / 1024**2:.0f} MiB free, at least {FREE_BYTES_MIN / 1024**2:.0f} are needed"
        raise StartRefused.of("home", message, "free some disk space, or set VERDRAFT_HOME to another disk")


def _require_port(settings: Settings, web: Service | None) -> None:
    """The port is free, or it is our own web process that listens there."""
    if web is not None and web.argv == _web(settings).argv:
        return
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as refused:
            reason = "is in use by another program" if refused.errno == errno.EADDRINUSE else str(refused.strerror)
            remedy = f"choose another, for example VERDRAFT_PORT={settings.port + 1} make up"
            raise StartRefused.of("port", f"port {settings.port} on {settings.host}: {reason}", remedy) from refused


def _keep_off_the_engine_core() -> None:
    """The first core is the engine's; what is started from here inherits the others."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.sched_setaffinity(0, cores[1:])


def _with_urls(settings: Settings, say: Say) -> Settings:
    """Embedded services for each URL that the operator did not set."""
    ours = {"database_url", "redis_url"} - settings.model_fields_set
    if not ours:
        return settings
    say("starting Postgres and Redis")
    started = {}
    if "database_url" in ours:
        started["database_url"] = SecretStr(embedded.start_postgres(settings.home))
    if "redis_url" in ours:
        started["redis_url"] = SecretStr(embedded.start_redis(settings.home))
    return settings.model_copy(update=started)


def _environment(settings: Settings) -> dict[str, str]:
    """The settings in force, all explicit, so that every process reads the same."""
    explicit: dict[str, str] = {}
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        text = value.get_secret_value() if isinstance(value, SecretStr) else str(value)
        explicit[f"VERDRAFT_{name.upper()}"] = str(value.resolve()) if isinstance(value, Path) else text
    return {**os.environ, **explicit, "PYTHONUNBUFFERED": "1"}


def _migrate(settings: Settings, say: Say) -> None:
    say("migrating the database")
    finished = subprocess.run(
        [sys.executable, "-m", "alembic", "upgrade", "head"],
        cwd=PROJECT_ROOT,
        env=_environment(settings),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if finished.returncode:
        said = finished.stdout.strip()[-_TAIL_CHARS:]
        raise StartRefused.of("database_url", f"the migration failed: {said}", "read the message above")


async def _release_blocks(settings: Settings, say: Say) -> None:
    """What a stopped worker of this host still holds is queued at once, without waiting for its lease to expire."""
    database = Database(settings.database_url.get_secret_value(), pooled=False)
    async with database.transaction() as session:
        released = await LeaseRepository(session).release(socket.gethostname())
    await database.dispose()
    if released:
        say(f"resuming {released} interrupted block{'s' * (released > 1)}")


def _web(settings: Settings) -> Wanted:
    place = ("--host", settings.host, "--port", str(settings.port), "--timeout-graceful-shutdown", "3")
    return Wanted("web", (sys.executable, "-m", "uvicorn", "app.main:create_app", "--factory", *place))


def _worker(settings: Settings) -> Wanted:
    pool = ("--pool", "prefork", "--prefetch-multiplier", "1", "--without-gossip", "--without-mingle")
    beat = ("--beat", "--schedule", str(settings.home.resolve() / "beat"), "--loglevel", settings.log_level)
    return Wanted("worker", (sys.executable, "-m", "celery", "--app", "worker.celery_app", "worker", *pool, *beat))


def _ensure(wanted: Wanted, known: dict[str, Service], settings: Settings, say: Say) -> None:
    present = known.get(wanted.name)
    if present is not None and present.argv == wanted.argv:
        return
    if present is not None:
        services.stop([present], grace_s=GRACE_S[wanted.name])
    say(f"starting {wanted.name}")
    logs = settings.home / "logs"
    logs.mkdir(exist_ok=True)
    log = logs / f"{wanted.name}.log"
    known[wanted.name] = services.start(wanted, environment=_environment(settings), directory=PROJECT_ROOT, log=log)


def _wait_until_ready(settings: Settings, web: Service) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while not _answers(settings):
        if not services.running(web) or time.monotonic() > deadline:
            log = settings.home / "logs" / "web.log"
            said = log.read_text(errors="replace")[-_TAIL_CHARS:]
            raise StartRefused.of("web", f"the web process is not ready: {said}", f"read {log}")
        time.sleep(0.1)


def _answers(settings: Settings) -> bool:
    try:
        return httpx.get(f"{url(settings)}/healthz", timeout=2, trust_env=False).is_success
    except httpx.HTTPError:
        return False
