"""Start the null engine or the fake vLLM as a process of its own, for as long as a ``with`` block lasts."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.fakes.dials import FILE_NAME
from tests.fakes.runtime import REPOSITORY, make_fake_runtime

PATIENCE_S = 30.0
POLL_S = 0.02
SERVED_MODEL_NAME = "target"


@dataclass(frozen=True, slots=True)
class StartedServer:
    """A server that answers ``/health`` on ``socket_path``."""

    process: subprocess.Popen[bytes]
    socket_path: str
    directory: Path

    def client(self) -> httpx.Client:
        transport = httpx.HTTPTransport(uds=self.socket_path, verify=False)  # no TLS: spares reading the certificates
        return httpx.Client(transport=transport, base_url="http://engine", timeout=30)

    def get(self, path: str) -> str:
        with self.client() as client:
            return client.get(path).text


@contextmanager
def null_engine() -> Generator[StartedServer, None, None]:
    """The product's server without a model."""
    with tempfile.TemporaryDirectory(prefix="null-") as directory:
        socket_path = f"{directory}/s"
        argv = (sys.executable, "-m", "worker.replay.null_engine", "--uds", socket_path)
        with _running(argv, socket_path, Path(directory), dict(os.environ)) as server:
            yield server


@contextmanager
def fake_vllm(
    dials: dict[str, Any] | None = None, speculation: dict[str, Any] | None = None
) -> Generator[StartedServer, None, None]:
    """The fake ``vllm serve`` with the flags the product gives it."""
    with tempfile.TemporaryDirectory(prefix="fake-") as directory:
        argv, environment, socket_path = fake_vllm_command(Path(directory), dials, speculation)
        with _running(argv, socket_path, Path(directory), environment) as server:
            yield server


def fake_vllm_command(
    directory: Path, dials: dict[str, Any] | None = None, speculation: dict[str, Any] | None = None
) -> tuple[tuple[str, ...], dict[str, str], str]:
    """The argv, environment and socket path of a fake whose model directory is made here."""
    model = directory / "model"
    model.mkdir()
    (model / FILE_NAME).write_text(json.dumps(dials or {}))
    socket_path = str(directory / "s")
    executable = make_fake_runtime(directory / "runtime") / "bin" / "vllm"
    flags = ("--served-model-name", SERVED_MODEL_NAME, "--uds", socket_path, "--enable-per-request-metrics")
    arm = ("--speculative-config", json.dumps(speculation), "--per-request-spec-decode-metrics", "detailed")
    argv = (str(executable), "serve", str(model), *flags, *(arm if speculation else ()))
    environment = {"PATH": "/usr/bin:/bin", "VLLM_SERVER_DEV_MODE": "1", "FAKE_MARK": str(directory)}
    return argv, environment, socket_path


@contextmanager
def _running(
    argv: Sequence[str], socket_path: str, directory: Path, environment: dict[str, str]
) -> Generator[StartedServer, None, None]:
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(argv, cwd=REPOSITORY, env=environment, stdout=log, stderr=subprocess.STDOUT)
    server = StartedServer(process, socket_path, directory)
    try:
        _await_health(server)
        yield server
    finally:
        process.kill()
        process.wait()


def _await_health(server: StartedServer) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up and server.process.poll() is None:
        try:
            server.get("/health")
        except httpx.TransportError:
            time.sleep(POLL_S)
        else:
            return
    log = (server.directory / "log").read_text()
    raise RuntimeError(f"the server did not come up: {log[-2000:]}")
