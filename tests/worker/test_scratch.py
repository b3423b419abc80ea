import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from worker.engine import containment
from worker.scratch import scratch_directory, sweep_scratch

ENTER = "import os; from worker.scratch import scratch_directory as s; d = s(); print(d.__enter__(), flush=True)"
DIES, STAYS = f"{ENTER}; os._exit(9)", f"{ENTER}; input()"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This test's own place for temporary directories, for its children, too."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_directory_is_there_while_it_is_used_and_says_whose_it_is() -> None:
    with scratch_directory() as directory:
        (directory / "engine.log").write_text("started")
        pid, started = directory.name.split("-")[1:3]
        assert f"{pid}:{started}" == containment.own_identity()
        sweep_scratch()
        assert (directory / "engine.log").exists()
    assert not directory.exists()


def test_its_path_is_short_enough_for_a_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")  # noqa: S108  (what it is by default)
    with scratch_directory() as directory:
        assert len(os.fsencode(directory / "vllm.sock")) < 100


def test_what_a_dead_worker_left_is_swept_and_a_living_ones_is_not(temporary: Path) -> None:
    left = Path(
        subprocess.run([sys.executable, "-c", DIES], stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    )
    (left / "cache").mkdir()
    (left / "cache" / "blob").write_bytes(b"x")
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", STAYS], stdin=pipe, stdout=pipe, text=True) as living:
        assert living.stdout is not None
        used = Path(living.stdout.readline().strip())
        sweep_scratch()
        assert not left.exists()
        assert used.is_dir()
        living.communicate("\n")


@pytest.mark.parametrize("name", ["verdraft-notes", "verdraft-a-b-c", "verdraft-1-x-y", "other-1-0-x", "verdraft-1-0"])
def test_what_is_not_named_so_is_left_alone(name: str, temporary: Path) -> None:
    (temporary / name).mkdir()
    sweep_scratch()
    assert (temporary / name).is_dir()


def test_a_pid_that_came_again_is_another_process(temporary: Path) -> None:
    (temporary / f"verdraft-{os.getpid()}-1-abc").mkdir()
    sweep_scratch()
    assert list(temporary.glob("verdraft-*")) == []
