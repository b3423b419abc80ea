"""What the containers are promised to be, read from the files that make them; and their health check, really asked."""

import json
import os
import re
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import pytest
import yaml

from app import embedded
from app.settings import PROJECT_ROOT, Settings
from tests.conftest import LiveServer
from worker import supervise

Service = dict[str, Any]
COMPOSE = cast("dict[str, Any]", yaml.safe_load((PROJECT_ROOT / "docker-compose.yml").read_text()))
SERVICES: dict[str, Service] = COMPOSE["services"]
OURS = ("migrate", "web", "worker", "worker-gpu")
WORKERS = ("worker", "worker-gpu")
DOCKERFILE = (PROJECT_ROOT / "Dockerfile").read_text().replace("\\\n", "")
OF_THE_IMAGE = {"home", "host", "port", "model_root", "runtime_root", "torch_index"}
"""Settings that are places inside an image, or that the build takes."""
GRACE_S = 90
BEAT = "/tmp/beat"  # noqa: S108  (a container has its own /tmp)


def test_redis_refuses_rather_than_forgets_and_wants_a_password() -> None:
    command = SERVICES["broker"]["command"]
    options = dict(zip(command[1::2], command[2::2], strict=True))
    assert options["--maxmemory-policy"] == "noeviction"
    assert options["--requirepass"].startswith("${REDIS_PASSWORD:?")
    assert options["--save"] == ""


def test_no_password_has_a_default() -> None:
    text = (PROJECT_ROOT / "docker-compose.yml").read_text()
    used = re.findall(r"\$\{(\w*PASSWORD)([^}]*)\}", text)
    assert {name for name, _ in used} == {"POSTGRES_PASSWORD", "REDIS_PASSWORD"}
    assert all(rest.startswith(":?") for _, rest in used)
    assert "PASSWORD" not in DOCKERFILE


def test_only_the_web_port_leaves_and_only_to_loopback() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert list(published) == ["web"]
    assert all(port.startswith("127.0.0.1:") and port.endswith(":8400") for port in published["web"])


def test_the_migration_runs_once_and_before_everything_that_reads_tables() -> None:
    assert SERVICES["migrate"]["restart"] == "no"
    assert SERVICES["migrate"]["depends_on"] == {"db": {"condition": "service_healthy"}}
    for name in ("web", *WORKERS):
        assert SERVICES[name]["depends_on"] == {
            "migrate": {"condition": "service_completed_successfully"},
            "broker": {"condition": "service_healthy"},
        }


def test_the_gpu_worker_reserves_gpus_and_is_asked_for_by_its_profile() -> None:
    assert {name for name, service in SERVICES.items() if "profiles" in service} == {"worker-gpu"}
    gpu = SERVICES["worker-gpu"]
    assert gpu["profiles"] == ["gpu"]
    (device,) = gpu["deploy"]["resources"]["reservations"]["devices"]
    assert (device["driver"], device["capabilities"]) == ("nvidia", ["gpu"])
    assert gpu["build"]["args"]["RUNTIME"] == "cuda"


def test_workers_differ_in_name_and_image() -> None:
    assert len({SERVICES[name]["hostname"] for name in WORKERS}) == len(WORKERS)
    assert len({SERVICES[name]["image"] for name in WORKERS}) == len(WORKERS)


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_may_hand_its_block_back_before_it_is_killed(name: str) -> None:
    worker = SERVICES[name]
    assert worker["init"] is True
    assert int(worker["stop_grace_period"].removesuffix("s")) >= GRACE_S
    assert worker["shm_size"].endswith("gb")
    assert any(mount.startswith("/tmp:") and "exec" in mount for mount in worker["tmpfs"])  # noqa: S108


@pytest.mark.parametrize("name", list(SERVICES))
def test_every_service_is_confined(name: str) -> None:
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["read_only"] is True
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert {"max-size", "max-file"} <= service["logging"]["options"].keys()
    assert service["restart"] == ("no" if name == "migrate" else "unless-stopped")
    assert "privileged" not in service


@pytest.mark.parametrize("name", list(SERVICES))
def test_every_image_has_a_tag(name: str) -> None:
    image = SERVICES[name]["image"]
    assert re.fullmatch(r"[a-z-]+:(\d+|\$\{VERDRAFT_TAG:-local\})", image)


@pytest.mark.parametrize("name", OURS)
def test_every_setting_reaches_the_containers(name: str) -> None:
    wanted = {f"VERDRAFT_{setting.upper()}" for setting in Settings.model_fields if setting not in OF_THE_IMAGE}
    assert SERVICES[name]["environment"].keys() == wanted, "add new settings to x-service of docker-compose.yml"


def _stage(name: str) -> str:
    return next(text for text in re.split(r"(?m)^FROM ", DOCKERFILE) if text.split("\n", 1)[0].endswith(f" AS {name}"))


def _command(stage: str) -> list[str]:
    found = re.search(r"(?m)^CMD (\[.*\])$", _stage(stage))
    assert found
    return json.loads(found[1])


@pytest.mark.parametrize("stage", ["web", "worker"])
def test_an_image_runs_as_nobody_in_particular_and_says_whether_it_works(stage: str) -> None:
    text = _stage(stage)
    assert "\nUSER verdraft\n" in text
    assert f'"scripts/healthcheck.py", "{stage}"]' in text
    assert DOCKERFILE.startswith("#")
    assert "\nARG BASE=" in DOCKERFILE
    assert ":latest" not in DOCKERFILE


def test_a_worker_image_has_what_the_engine_looks_for_in_the_system() -> None:
    # Without libnuma1 no server starts, without a compiler and Python's headers none that is not eager.
    assert {"libnuma1", "g++", "python3-dev"} <= set(_stage("worker").split())


@pytest.mark.parametrize("stage", ["web", "worker"])
def test_an_image_starts_what_the_supervisor_starts(stage: str, tmp_path: Path) -> None:
    wanted = {"web": supervise._web, "worker": supervise._worker}[stage](Settings(home=tmp_path, host="0.0.0.0"))
    argv = [BEAT if word == str(tmp_path / "beat") else word for word in wanted.argv[2:]]
    assert _command(stage) == argv


def test_what_the_engine_stage_copies_is_all_that_the_installer_imports(tmp_path: Path) -> None:
    for source in re.findall(r"(?m)^COPY (app|worker)(\S*) ", _stage("engine")):
        path = Path("".join(source))
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(PROJECT_ROOT / path)
    # -S leaves the editable install of this very project out of sight.
    asked = subprocess.run(
        [sys.executable, "-S", "-c", "import worker.runtimes.install"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr


def test_a_build_sees_no_environment_and_no_evidence() -> None:
    lines = [line for line in (PROJECT_ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "*"
    copied = {word for words in re.findall(r"(?m)^COPY (?!--from)(.*)$", DOCKERFILE) for word in words.split()[:-1]}
    let_in = {line[1:] for line in lines if line.startswith("!")}
    assert all(
        any(word == path or word.startswith(f"{path}/") or path.startswith(f"{word}/") for path in let_in)
        for word in copied
    )
    assert not let_in & {".env", ".venv", ".verdraft", ".runtimes", ".git"}


# The health check


def _checked(role: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    argv = (sys.executable, "-I", "-S", str(PROJECT_ROOT / "scripts" / "healthcheck.py"), role)
    return subprocess.run(argv, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=30)


def test_a_web_process_that_serves_is_healthy(live_server: LiveServer) -> None:
    asked = _checked("web", VERDRAFT_PORT=str(live_server.settings.port))
    assert (asked.returncode, asked.stderr) == (0, "")


def test_a_web_process_that_is_not_there_is_not_healthy() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        asked = _checked("web", VERDRAFT_PORT=str(taken.getsockname()[1]))
    assert asked.returncode == 1
    assert "web is not healthy" in asked.stderr


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[str]:
    """The URL of a Redis on loopback that wants a password, as the broker of the containers does."""
    program = Path(sys.executable).parent / "redis-server"
    if not program.is_file():
        pytest.skip("there is no redis-server of this Python version")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = ("--bind", "127.0.0.1", "--port", str(port), "--dir", str(tmp_path))
    with subprocess.Popen(
        (program, *place, "--requirepass", "s3cr:et", "--save", ""), stdout=subprocess.PIPE
    ) as server:
        assert server.stdout is not None
        for line in server.stdout:
            if b"Ready to accept" in line:
                break
        yield f"redis://:{quote('s3cr:et')}@127.0.0.1:{port}/0"
        server.terminate()


@pytest.fixture
def tcp_postgres(server_home: Path) -> Iterator[str]:
    """The URL of the tests' Postgres, which has no port of its own, behind one that passes a single question on."""

    class Passing(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.socket(socket.AF_UNIX) as inside:
                inside.connect(str(embedded.socket_directory(server_home) / "postgres" / ".s.PGSQL.5432"))
                inside.sendall(self.request.recv(8))
                self.request.sendall(inside.recv(1))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Passing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"postgresql+psycopg://verdraft:secret@127.0.0.1:{server.server_address[1]}/verdraft"
        server.shutdown()


def test_a_worker_that_reaches_both_is_healthy(tcp_postgres: str, broker: str) -> None:
    asked = _checked("worker", VERDRAFT_DATABASE_URL=tcp_postgres, VERDRAFT_REDIS_URL=broker)
    assert (asked.returncode, asked.stderr) == (0, "")


def test_a_worker_whose_password_is_wrong_is_not_healthy(tcp_postgres: str, broker: str) -> None:
    wrong = broker.replace(quote("s3cr:et"), "other")
    asked = _checked("worker", VERDRAFT_DATABASE_URL=tcp_postgres, VERDRAFT_REDIS_URL=wrong)
    assert asked.returncode == 1
    assert "WRONGPASS" in asked.stderr
    assert "other" not in asked.stderr


def test_a_worker_without_its_database_is_not_healthy(broker: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"postgresql+psycopg://verdraft:secret@127.0.0.1:{taken.getsockname()[1]}/verdraft"
        asked = _checked("worker", VERDRAFT_DATABASE_URL=url, VERDRAFT_REDIS_URL=broker)
    assert asked.returncode == 1
    assert "worker is not healthy" in asked.stderr
    assert "secret" not in asked.stderr
