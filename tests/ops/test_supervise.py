"""``up`` and ``down`` as a person runs them: the real command, real services, in a directory of their own."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.domain.errors import DomainError
from app.settings import Settings
from worker import supervise
from worker.services import Register

VERDRAFT = Path(sys.executable).parent / "verdraft"


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="vd-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def environment(home: Path, port: int) -> Iterator[dict[str, str]]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("VERDRAFT_")}
    environment |= {"VERDRAFT_HOME": str(home), "VERDRAFT_PORT": str(port), "COLUMNS": "200"}
    yield environment
    _verdraft(environment, "down")


def _spawn(environment: dict[str, str], *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [VERDRAFT, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _verdraft(environment: dict[str, str], *arguments: str) -> tuple[int, str]:
    running = _spawn(environment, *arguments)
    said, _ = running.communicate()
    return running.returncode, said


def test_two_ups_at_once_then_a_crash_then_down_and_up_again(
    environment: dict[str, str], home: Path, port: int
) -> None:
    both = [_spawn(environment, "up", "--no-demo") for _ in range(2)]
    said = [running.communicate()[0] for running in both]
    assert [running.returncode for running in both] == [0, 0], said
    assert all(f"http://127.0.0.1:{port}" in words for words in said)
    assert sum("starting web" in words for words in said) == 1
    assert sum("waiting for it" in words for words in said) == 1

    register = Register(home / "services.json")
    before = register.read()
    os.kill(before["web"].pid, signal.SIGKILL)
    code, words = _verdraft(environment, "up", "--no-demo")
    assert code == 0, words
    after = register.read()
    assert after["worker"] == before["worker"]
    assert after["web"] != before["web"]
    assert httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False).is_success
    assert _verdraft(environment, "status")[0] == 0

    code, words = _verdraft(environment, "down")
    assert code == 0, words
    assert register.read() == {}
    assert _verdraft(environment, "status")[0] == 1
    assert _verdraft(environment, "down")[0] == 0


def test_a_busy_port_is_said_with_the_remedy_before_anything_starts(home: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        busy = other.getsockname()[1]
        with pytest.raises(DomainError) as refused:
            supervise.up(Settings(home=home, port=busy), print)

    [problem] = refused.value.problems
    assert problem.field == "port"
    assert str(busy) in problem.message
    assert f"VERDRAFT_PORT={busy + 1}" in problem.remedy
    assert not (home / "postgres").exists()


def test_a_full_disk_is_said_before_anything_starts(home: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    full = shutil.disk_usage(home)._replace(free=10 * 1024**2)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)

    with pytest.raises(DomainError) as refused:
        supervise.up(Settings(home=home, port=port), print)

    assert "10 MiB free" in refused.value.problems[0].message
    assert "VERDRAFT_HOME" in refused.value.problems[0].remedy
    assert not (home / "postgres").exists()


def test_down_where_nothing_ever_ran_leaves_no_trace(home: Path) -> None:
    supervise.down(Settings(home=home / "never"), print)
    assert list(home.iterdir()) == []
