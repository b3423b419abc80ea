"""What has left its session and cleared its environment is still in its cgroup. Needs a cgroup v2 of our own."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from app.domain.launch import LaunchSpec
from tests.db.hosts import until
from worker.engine import cgroup, containment
from worker.engine.cgroup import Cgroup, make_cgroup
from worker.engine.server import VllmServer

SCRIPT = Path(__file__).with_name("scripted_server.py")
DEAD = "1:0"
"""The first process, as if it had started at another time."""


def arrange(monkeypatch: pytest.MonkeyPatch, directory: Path, mounts: str, own: str) -> None:
    """Let this process see such mounts, and itself in such a group."""
    for name, constant, text in (("mountinfo", "_MOUNTS", mounts), ("own", "_OWN", own)):
        (directory / name).write_text(text)
        monkeypatch.setattr(cgroup, constant, directory / name)


@pytest.fixture
def delegated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A group that belongs to this process alone, as systemd or a container's root would give it."""
    mount = tmp_path / "cgroup2"
    mount.mkdir()
    mounted = subprocess.run(["mount", "-t", "cgroup2", "none", mount], capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"a cgroup2 cannot be mounted here: {mounted.stderr.strip()}")
    own = mount / f"test-{os.getpid()}"
    own.mkdir()
    mounts = f"30 23 0:28 / /sys rw - sysfs sysfs rw\n43 27 0:38 / {mount} rw,relatime - cgroup2 none rw\n"
    arrange(monkeypatch, tmp_path, mounts, f"1:cpu:/elsewhere\n0::/{own.name}\n")
    yield own
    for left in (*own.glob("*/"), own):
        left.rmdir()
    subprocess.run(["umount", mount], check=True)


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A directory with a path short enough for a unix socket."""
    with tempfile.TemporaryDirectory(prefix="vd-") as directory:
        yield Path(directory)


def start(inside: Cgroup) -> "subprocess.Popen[bytes]":
    """A process without a tag, in a session of its own, in that group."""
    argv = [sys.executable, "-c", "import time; time.sleep(600)"]
    return subprocess.Popen(argv, env={}, start_new_session=True, preexec_fn=inside.enter)  # noqa: PLW1509


def test_a_group_is_made_below_ones_own_and_is_gone_when_empty(delegated: Path) -> None:
    made = make_cgroup("12:34-0839699f:1")
    assert made is not None
    assert made == Cgroup(delegated / "verdraft-12-34-0839699f-1")
    assert made.path.is_dir()
    assert made.members() == frozenset()
    made.remove()
    assert not made.path.exists()
    assert made.members() == frozenset()
    made.kill()


def test_everything_inside_is_killed_and_nothing_else(delegated: Path) -> None:
    one, other = make_cgroup("one"), make_cgroup("other")
    assert one is not None
    assert other is not None
    ours, theirs = start(one), start(other)
    try:
        assert one.members() == {ours.pid}
        one.kill()
        assert ours.wait() == -signal.SIGKILL
        assert theirs.poll() is None
        assert other.members() == {theirs.pid}
    finally:
        theirs.kill()
        theirs.wait()
        one.remove()
        other.remove()


def test_a_group_with_a_process_stays_and_says_so(delegated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "REMOVE_PATIENCE_S", 0.1)
    made = make_cgroup("busy")
    assert made is not None
    inside = start(made)
    made.remove()
    assert made.path.exists()
    made.kill()
    inside.wait()
    made.remove()
    assert not made.path.exists()


@pytest.mark.parametrize(
    ("mounts", "own"),
    [
        ("32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n", "1:cpu:/\n"),
        ("43 27 0:38 / {here} rw - cgroup2 none rw\n", "1:cpu:/\n"),
        ("43 27 0:38 / {here} rw - cgroup2 none rw\n", "0::/not/there\n"),
        ("43 27 0:38 / {here} rw - cgroup2 none rw\n", "0::/\n"),
    ],
    ids=["version 1 only", "in none", "not delegated", "no cgroup file system"],
)
def test_where_there_is_none_the_engine_does_without(
    mounts: str, own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrange(monkeypatch, tmp_path, mounts.format(here=tmp_path), own)
    assert make_cgroup("name") is None


def test_a_kernel_that_cannot_kill_groups_is_no_failure(delegated: Path) -> None:
    """Before 5.14 no group has the file; today the topmost one has not. To create it there is refused, not missing."""
    topmost = delegated.parent
    if (topmost / "cgroup.kill").exists():
        pytest.skip("this process sees only a part of the groups")
    Cgroup(topmost).kill()


async def test_an_engine_whose_child_flees_and_hides_is_gone_afterwards(delegated: Path, scratch: Path) -> None:
    spec = LaunchSpec(
        argv=(sys.executable, str(SCRIPT), "hidden", str(scratch / "s")),
        env={"PATH": "/usr/bin:/bin", "VLLM_CACHE_ROOT": str(scratch / "cache"), "HIDDEN": str(scratch / "hidden")},
        socket_path=str(scratch / "s"),
        served_model_name="target",
        cores=(0,),
    )
    (scratch / "hidden").touch()
    running = VllmServer(spec, scratch / "log", tag=f"test:{scratch.name}", startup_timeout_s=60, term_grace_s=1)
    async with running:
        await until(lambda: bool((scratch / "hidden").read_text()))
        hidden = int((scratch / "hidden").read_text())
        assert hidden not in containment.members(f"test:{scratch.name}", leader=-1)
        [own_group] = delegated.glob("verdraft-*")
        assert hidden in Cgroup(own_group).members()
    assert not containment.alive([hidden])
    assert list(delegated.glob("verdraft-*")) == []


def test_what_a_dead_supervisor_left_in_its_group_is_swept(delegated: Path) -> None:
    abandoned, ours = make_cgroup(f"{DEAD}-0839699f:1"), make_cgroup(f"{containment.own_identity()}-0839699f:2")
    assert abandoned is not None
    assert ours is not None
    orphan, living = start(abandoned), start(ours)
    try:
        assert orphan.pid in containment.sweep_orphans()
        assert orphan.wait() == -signal.SIGKILL
        assert not abandoned.path.exists()
        assert living.poll() is None
        assert ours.path.exists()
    finally:
        for process, group in ((orphan, abandoned), (living, ours)):
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()
            group.remove()


def test_an_engine_starts_also_where_its_group_has_gone(tmp_path: Path) -> None:
    prepare = containment.child_setup((), Cgroup(tmp_path / "gone"))
    assert subprocess.run(["true"], preexec_fn=prepare, check=False).returncode == 0
