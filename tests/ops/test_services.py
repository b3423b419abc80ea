"""Detached services: exactly the process that was started is found, and all of its tree is stopped."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from worker import services
from worker.services import Register, Service, Wanted

PATIENCE_S = 30
FAMILY = "import subprocess, sys, time; print(subprocess.Popen(['sleep', '600']).pid, flush=True); time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
)

Start = Callable[[str], Service]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def start(tmp_path: Path, log: Path) -> Iterator[Start]:
    started: list[Service] = []

    def start_one(code: str) -> Service:
        wanted = Wanted("one", (sys.executable, "-c", code))
        started.append(services.start(wanted, environment=os.environ, directory=tmp_path, log=log))
        _until(lambda: log.read_text().endswith("\n"))
        return started[-1]

    yield start_one
    for service in started:
        services.stop([service], grace_s=0)


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_service_has_a_session_of_its_own_and_is_found_again(start: Start, tmp_path: Path) -> None:
    service = start(FAMILY)
    register = Register(tmp_path / "services.json")
    register.write({"one": service})

    assert os.getsid(service.pid) == service.pid
    assert register.read() == {"one": service}


def test_a_pid_that_another_process_has_by_now_is_not_the_service(start: Start, tmp_path: Path) -> None:
    stale = replace(start(FAMILY), pid=os.getpid())
    register = Register(tmp_path / "services.json")
    register.write({"one": stale})

    assert not services.running(stale)
    assert register.read() == {}
    services.stop([stale], grace_s=0)  # would end this test run if the pid alone counted


def test_children_go_with_their_parent(start: Start, log: Path) -> None:
    service = start(FAMILY)
    child = psutil.Process(int(log.read_text()))

    services.stop([service])

    assert not services.running(service)
    assert services.birth(child.pid) is None


def test_who_ignores_the_request_is_killed(start: Start) -> None:
    service = start(STUBBORN)
    services.stop([service], grace_s=0.1)
    assert not services.running(service)


def test_a_zombie_does_not_run(start: Start) -> None:
    service = start(FAMILY)
    os.kill(service.pid, signal.SIGKILL)
    _until(lambda: not services.running(service))
    assert psutil.pid_exists(service.pid)  # nobody has waited for it


@pytest.mark.parametrize("broken", ["", "{", "[1]", '[{"name": "one"}]', "null"])
def test_a_broken_register_names_nobody(tmp_path: Path, broken: str) -> None:
    (tmp_path / "services.json").write_text(broken)
    assert Register(tmp_path / "services.json").read() == {}


def test_no_register_names_nobody(tmp_path: Path) -> None:
    assert Register(tmp_path / "services.json").read() == {}
