"""Real Postgres and Redis: started, found again, killed, started again, stopped."""

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from app import embedded
from app.domain.errors import DomainError


@pytest.fixture
def home() -> Iterator[Path]:
    # Not tmp_path: its long names are the subject of one test only.
    with tempfile.TemporaryDirectory(prefix="vd-") as directory:
        yield Path(directory)
        embedded.stop(Path(directory))


def _dsn(url: str) -> str:
    return url.replace("postgresql+psycopg", "postgresql")


def _write(url: str) -> None:
    with psycopg.connect(_dsn(url)) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")


def _read(url: str) -> int:
    with psycopg.connect(_dsn(url)) as connection:
        row = connection.execute("SELECT answer FROM kept").fetchone()
    assert row is not None
    return row[0]


def _postmaster_pid(home: Path) -> int:
    return int((home / "postgres" / "data" / "postmaster.pid").read_text().split("\n", 1)[0])


def _kill_and_wait(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    while (stat := Path(f"/proc/{pid}/stat")).exists() and stat.read_text().rpartition(")")[2].split()[0] not in "ZX":
        pass


def test_starting_twice_keeps_the_servers_and_the_rows(home: Path) -> None:
    first = embedded.start(home)
    _write(first.database)
    pid = _postmaster_pid(home)

    assert embedded.start(home) == first
    assert _postmaster_pid(home) == pid
    assert _read(first.database) == 42


def test_stop_stops_and_start_resumes(home: Path) -> None:
    _write(embedded.start(home).database)

    embedded.stop(home)
    assert not embedded.postgres_runs(home)
    assert not embedded.redis_runs(home)

    assert _read(embedded.start(home).database) == 42


def test_committed_rows_survive_a_kill_and_a_pid_that_somebody_else_has_by_now(home: Path) -> None:
    _write(embedded.start_postgres(home))
    pidfile = home / "postgres" / "data" / "postmaster.pid"
    recorded = pidfile.read_text()
    _kill_and_wait(_postmaster_pid(home))
    pidfile.write_text(recorded.replace(recorded.split("\n", 1)[0], str(os.getpid()), 1))

    assert _read(embedded.start_postgres(home)) == 42


def test_a_killed_redis_is_started_again(home: Path) -> None:
    url = embedded.start_redis(home)
    _kill_and_wait(int((home / "redis" / "pid").read_text()))
    assert not embedded.redis_runs(home)

    assert embedded.start_redis(home) == url
    assert embedded.redis_runs(home)


def test_a_long_home_gets_a_short_recorded_and_private_socket_directory(home: Path) -> None:
    long_home = home / ("long" * 30)
    long_home.mkdir()

    directory = embedded.socket_directory(long_home)

    assert len(os.fsencode(directory / "postgres" / ".s.PGSQL.5432.lock")) <= embedded.SOCKET_PATH_MAX
    assert directory.stat().st_mode & 0o777 == 0o700
    assert embedded.socket_directory(long_home) == directory
    assert embedded.socket_directory(home) != directory
    directory.rmdir()


def test_nothing_runs_in_a_long_home_that_does_not_exist_yet(home: Path) -> None:
    absent = home / ("long" * 30)
    assert not embedded.postgres_runs(absent)
    assert not embedded.redis_runs(absent)
    embedded.socket_directory(absent).rmdir()


def test_sockets_stay_in_a_short_home(home: Path) -> None:
    assert embedded.socket_directory(home) == home.resolve() / "sockets"


def test_nothing_listens_on_the_network(home: Path) -> None:
    embedded.start(home)
    for pid in (_postmaster_pid(home), int((home / "redis" / "pid").read_text())):
        assert psutil.Process(pid).net_connections("inet") == []


def test_a_missing_redis_server_is_said_with_the_remedy(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded.sys, "executable", str(home / "bin" / "python"))
    monkeypatch.setenv("PATH", str(home))

    with pytest.raises(DomainError) as refused:
        embedded.start_redis(home)

    assert refused.value.problems[0].field == "redis_url"
    assert "install redis-server" in refused.value.problems[0].remedy


def test_what_postgres_says_reaches_the_message(home: Path) -> None:
    (home / "postgres" / "data").mkdir(parents=True)
    (home / "postgres" / "data" / "PG_VERSION").write_text("9\n")

    with pytest.raises(DomainError) as refused:
        embedded.start_postgres(home)

    assert "pg_ctl failed" in refused.value.problems[0].message
