"""The bundled draft model on the real engine: its time is seen, the target's too, and they fit into the whole step."""

import json
import shutil
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from typer.testing import CliRunner

from app.demo.manifest import DRAFT_ALIAS, TARGET_ALIAS, Platform, demo_manifest
from app.demo.workloads import build_traces, demo_loads
from app.settings import Settings
from worker.cli import app
from worker.identity import hardware, inspect_runtime, software
from worker.models import model_digest
from worker.profiling.outcome import ArmProfile

pytestmark = pytest.mark.real_engine

ARM, REQUESTS = "draft-k4", 4
TOLERANCE = 0.05
"""Of the whole step: scopes and steps are other spans, and a step that ends a request has no next."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place of its own, so that other tests' locks are none of ours; what runtimes said is taken over."""
    said = Settings().home / "capabilities"
    if said.is_dir():
        shutil.copytree(said, tmp_path / "home" / said.name)
    monkeypatch.setenv("VERDRAFT_HOME", str(tmp_path / "home"))
    return tmp_path


def written(directory: Path) -> tuple[Path, Path]:
    """The demo's manifest as a file, and its first workload's trace."""
    settings = Settings()
    references = {a: f"local:{a}@sha256:{model_digest(settings.model_root / a)}" for a in (TARGET_ALIAS, DRAFT_ALIAS)}
    platform = Platform(
        runtime=inspect_runtime(settings.runtime_root / "cpu").ref,
        target=references[TARGET_ALIAS],
        draft=references[DRAFT_ALIAS],
        hardware=hardware(),
        software=software(),
    )
    loads = demo_loads(2.0, 4.0)
    tokenizer = Tokenizer.from_file(str(settings.model_root / TARGET_ALIAS / "tokenizer.json"))
    traces = build_traces(tokenizer, loads)
    (directory / "manifest.json").write_bytes(demo_manifest(platform, loads, traces, blocks=1, full=False).canonical())
    (directory / "trace.jsonl").write_bytes(traces[0].encode())
    return directory / "manifest.json", directory / "trace.jsonl"


def test_target_and_draft_fit_into_the_step(home: Path) -> None:
    manifest, trace = map(str, written(home))
    words = ("--workload", "edit", "--trace", trace, "--arm", ARM, "--requests", str(REQUESTS), "--json")
    ran = CliRunner().invoke(app, ["profile", manifest, *words])
    assert ran.exit_code == 0, ran.output
    (document,) = json.loads(ran.stdout)
    computed = {name: document.pop(name) for name in ("overhead", "drift")}
    told = ArmProfile.model_validate(document)
    times = told.profile.decoding
    assert times is not None
    assert (told.profile.clock, told.profile.not_observable, told.requests) == ("host", {}, REQUESTS)
    assert times.requests_per_step == 1.0
    forward = next(scope for scope in times.scopes if scope.scope == "forward")
    assert forward.mean_ms > 0
    assert times.target_ms is not None
    assert times.draft_ms is not None
    assert times.whole_ms is not None
    assert times.draft_ms > 0
    assert forward.mean_ms < times.target_ms
    assert times.target_ms + times.draft_ms < times.whole_ms * (1 + TOLERANCE)
    assert told.profiled.mean_ms is not None
    assert told.profiled.n >= times.whole_steps
    assert times.target_ms + times.draft_ms < told.profiled.mean_ms * (1 + TOLERANCE)
    assert computed == {"overhead": told.overhead, "drift": told.drift}
    assert None not in computed.values()
    assert Path(told.trace_path).is_file()
