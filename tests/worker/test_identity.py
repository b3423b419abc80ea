"""The document that a worker publishes: every runtime as it describes itself, every model as its files say."""

import shutil
from pathlib import Path

import psutil
import pytest

from app.domain.capability import HostCapability
from app.settings import Settings
from tests.fakes.runtime import make_fake_runtime
from worker import identity
from worker.identity import accelerator_memory_bytes, capabilities, hardware, inspect_runtimes, software
from worker.models import model_digest


@pytest.fixture
def host(tmp_path: Path) -> Settings:
    """A host with one model and one runtime."""
    model = tmp_path / "models" / "tiny"
    model.mkdir(parents=True)
    (model / "config.json").write_text('{"model_type": "llama"}')
    make_fake_runtime(tmp_path / "runtimes" / "cpu")
    return Settings(home=tmp_path / "home", model_root=tmp_path / "models", runtime_root=tmp_path / "runtimes")


def test_the_document_has_the_published_form(host: Settings) -> None:
    document = HostCapability.model_validate(capabilities(host))
    [runtime] = document.runtimes
    assert runtime.ref == inspect_runtimes(host.runtime_root)[0].ref
    assert "ngram" in runtime.methods
    assert document.models[0].ref == f"local:tiny@sha256:{model_digest(host.model_root / 'tiny')}"
    assert document.hardware["count"] >= 1
    assert document.software["kernel"]
    assert document.cores >= 1
    assert document.memory_bytes > 2**20


def test_every_version_here_is_published(host: Settings) -> None:
    make_fake_runtime(host.runtime_root / "old", version="0.27.0", methods=["ngram"])
    runtimes = HostCapability.model_validate(capabilities(host)).runtimes
    assert [(found.name, found.version) for found in runtimes] == [("cpu", "0.32.0"), ("old", "0.27.0")]
    assert runtimes[1].methods == ("ngram",)


def test_a_runtime_that_cannot_be_asked_hides_no_other(host: Settings) -> None:
    make_fake_runtime(host.runtime_root / "broken", version="0.31.0", answers=False)
    broken, working = HostCapability.model_validate(capabilities(host)).runtimes
    assert (broken.name, working.name) == ("broken", "cpu")
    assert broken.unavailable
    assert working.unavailable is None


def test_this_host_can_be_named() -> None:
    assert hardware().count >= 1
    assert software().kernel
    if software().driver == "none":
        assert accelerator_memory_bytes() == psutil.virtual_memory().total


def test_what_is_added_or_removed_is_published_at_once_and_an_edit_later(
    host: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def published() -> list[str]:
        return [found.ref for found in HostCapability.model_validate(capabilities(host)).runtimes]

    [before] = published()
    make_fake_runtime(host.runtime_root / "old", version="0.27.0")
    assert len(published()) == 2
    shutil.rmtree(host.runtime_root / "old")
    assert published() == [before]
    (host.runtime_root / "cpu" / "lib" / "python3.11" / "site-packages" / "torch.py").write_text("edited")
    assert published() == [before]
    monkeypatch.setattr(identity, "RECHECK_S", -1.0)
    assert published() != [before]
