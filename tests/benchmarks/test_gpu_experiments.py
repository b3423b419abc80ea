"""The experiments on a GPU are the declared ones, whatever host freezes them."""

import itertools
import json
import shutil
from pathlib import Path

import pytest

from app.domain.manifest import parse_manifest
from app.domain.schedule import plan
from app.domain.trace import check_fit, parse_trace
from app.domain.vocabulary import WARMUP
from app.settings import PROJECT_ROOT
from benchmarks.gpu.experiments import main
from tests.fakes.runtime import make_fake_runtime


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host with a fake engine of the version that lacks per-request counts, and the bundled models."""
    make_fake_runtime(tmp_path / "runtimes" / "gpu", version="0.26.0")
    for alias, source in (("wide", "tiny-target"), ("small-draft", "tiny-draft"), ("small-eagle", "tiny-draft")):
        shutil.copytree(PROJECT_ROOT / "models" / source, tmp_path / "models" / alias)
    for name, value in (("HOME", "home"), ("RUNTIME_ROOT", "runtimes"), ("MODEL_ROOT", "models")):
        monkeypatch.setenv(f"VERDRAFT_{name}", str(tmp_path / value))
    return tmp_path


def test_the_published_pair_has_its_published_numbers(place: Path) -> None:
    main(["published", "--out", str(place / "out"), "--runtime", "gpu", "--target", "wide"])
    manifest = parse_manifest(json.loads((place / "out" / "manifest.json").read_bytes()))
    traces = {w.name: parse_trace((place / "out" / f"{w.name}.jsonl").read_bytes()) for w in manifest.workloads}
    cells = [(arm, name, load.name) for arm in manifest.arms for name in traces for load in manifest.loads]
    assert len(cells) * manifest.blocks == 24
    assert {len(traces[name].of_load(load)) for _, name, load in cells} == {16}
    assert sum(len(t.of_load(WARMUP)) for t in traces.values()) * len(manifest.arms) * manifest.blocks == 96
    assert len({tuple(s.arm for s in block.sessions) for block in plan(manifest)}) == 2
    assert not [p for name, trace in traces.items() for p in check_fit(manifest, name, trace)]
    prompts = [r.prompt_text for trace in traces.values() for r in trace.requests]
    assert len(prompts) == len(set(prompts))


def test_the_crossover_climbs_one_process_and_has_the_target_twice(place: Path) -> None:
    main(["crossover", "--out", str(place / "out"), "--runtime", "gpu", "--target", "wide", "--blocks", "2"])
    manifest = parse_manifest(json.loads((place / "out" / "manifest.json").read_bytes()))
    trace = parse_trace((place / "out" / "tasks.jsonl").read_bytes())
    assert not [*check_fit(manifest, "tasks", trace)]
    due = [{r.due_ns for r in trace.of_load(load.name)} for load in manifest.loads]
    assert all(lower <= higher for lower, higher in itertools.pairwise(due))
    assert [arm.name for arm in manifest.arms if not arm.speculates] == ["target-only", "target-only-as-deployed"]
    assert [arm.name for arm in manifest.decided] == ["draft-k4", "eagle-k3"]
