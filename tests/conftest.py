"""One real Postgres for a test session, one migrated database per xdist worker, emptied before each test that asks."""

import fcntl
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import hypothesis
import psycopg
import pytest
import uvicorn
from alembic import command
from alembic.config import Config
from fastapi import FastAPI
from pydantic import SecretStr
from sqlalchemy.engine import make_url

from app import embedded
from app.db.session import Database
from app.main import create_app
from app.settings import PROJECT_ROOT, Settings

TESTS = Path(__file__).parent
HOME = "VERDRAFT_TEST_HOME"
NO_BROKER = "redis://127.0.0.1:1/0"
PARTITIONS = (
    "SELECT inhrelid::regclass::text FROM pg_inherits"
    " WHERE inhparent IN ('observation'::regclass, 'series'::regclass, 'request_case'::regclass)"
)


def pytest_configure(config: pytest.Config) -> None:
    """Before xdist starts its workers, so that they share the server's directory."""
    hypothesis.settings.register_profile("untimed", deadline=None)  # how long an example takes is the host's affair
    hypothesis.settings.load_profile("untimed")
    if not hasattr(config, "workerinput"):
        os.environ[HOME] = tempfile.mkdtemp(prefix="vd-")
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # leave through pytest, so that the servers stop too


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        home = Path(os.environ[HOME])
        embedded.stop(home)
        shutil.rmtree(home, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What times a client or starts an engine stays in one process: beside each other they would disturb each other."""
    for item in items:
        if item.path.parent.is_relative_to(TESTS / "worker") or item.path.parent.is_relative_to(TESTS / "chaos"):
            item.add_marker(pytest.mark.xdist_group("timed"))


@pytest.fixture(scope="session")
def server_home() -> Path:
    """The directory of the session's Postgres and Redis, held by one starter at a time."""
    home = Path(os.environ[HOME])
    with (home / "starting").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        embedded.start_postgres(home)
    return home


@pytest.fixture(scope="session")
def redis_url(server_home: Path) -> str:
    """A real Redis; each xdist worker has a database of its own there."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 16
    with (server_home / "starting").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return f"{embedded.start_redis(server_home)}?virtual_host={number}"


@pytest.fixture(scope="session")
def postgres_url(server_home: Path) -> str:
    """The server's own database, for tests that make databases."""
    with (server_home / "starting").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return embedded.start_postgres(server_home)


@pytest.fixture(scope="session")
def migrated_url(postgres_url: str) -> str:
    """This xdist worker's database, made by the migrations."""
    return new_database(postgres_url, f"test_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}")


@pytest.fixture
def database_url(migrated_url: str) -> str:
    """The worker's database, empty."""
    return emptied(migrated_url)


def emptied(migrated_url: str) -> str:
    """The same database, without what tests have put there."""
    with psycopg.connect(libpq_url(migrated_url), autocommit=True) as connection:
        connection.execute("TRUNCATE trace, experiment, worker_capability, imported_result CASCADE")
        connection.execute("TRUNCATE account, api_token, allowance CASCADE")
        connection.execute("TRUNCATE kept_answer, webhook CASCADE")
        connection.execute("DELETE FROM project WHERE name <> 'default'")
        for (partition,) in connection.execute(PARTITIONS).fetchall():
            connection.execute(f"DROP TABLE {partition}".encode())
    return migrated_url


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = Database(database_url)
    yield opened
    await opened.dispose()


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    """Settings of an empty database and an empty home; the broker is dead, which must only cost a warning.

    Pages wait for their report; ``tests/browser/test_computing.py`` does not.
    """
    return Settings(
        home=tmp_path / "home",
        database_url=SecretStr(database_url),
        redis_url=SecretStr(NO_BROKER),
        runtime_root=tmp_path / "runtimes",
        page_patience_s=120,
    )


@pytest.fixture
async def client(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """The app in this process, without a socket."""
    async with client_of(create_app(settings), settings) as opened:
        yield opened


@dataclass(frozen=True, slots=True)
class LiveServer:
    """The app behind a real socket: ``url`` has no trailing slash."""

    url: str
    settings: Settings

    def __str__(self) -> str:
        return self.url


@pytest.fixture
def live_server(settings: Settings) -> Iterator[LiveServer]:
    """A real uvicorn on a free loopback port, for browsers and the CLI."""
    with serving_live(settings) as live:
        yield live


@contextmanager
def serving_live(settings: Settings) -> Generator[LiveServer]:
    """The same, for as long as the context is entered."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        own = settings.model_copy(update={"port": port})
        server = uvicorn.Server(uvicorn.Config(create_app(own), log_config=None, timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        yield LiveServer(f"http://127.0.0.1:{port}", own)
        server.should_exit = True
        thread.join(timeout=10)


@asynccontextmanager
async def client_of(app: FastAPI, settings: Settings) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of ``app``, within its lifespan."""
    transport = httpx.ASGITransport(app)
    base_url = f"http://127.0.0.1:{settings.port}"
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=base_url) as opened:
        yield opened


def new_database(server_url: str, name: str) -> str:
    """A fresh database of that name, migrated to the newest revision; returns its URL."""
    url = empty_database(server_url, name)
    command.upgrade(alembic_config(url), "head")
    return url


def empty_database(server_url: str, name: str) -> str:
    """A fresh database of that name without tables; returns its URL."""
    with psycopg.connect(libpq_url(server_url), autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    return make_url(server_url).set(database=name).render_as_string(hide_password=False)


def alembic_config(url: str) -> Config:
    """Alembic on the database at ``url``."""
    config = Config(PROJECT_ROOT / "alembic.ini")
    config.attributes["url"] = url
    return config


def libpq_url(url: str) -> str:
    """What psycopg understands."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
