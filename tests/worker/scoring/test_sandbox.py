"""What an answer's code may and may not do. Each escape is tried for real, and must have no effect that anyone sees."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from worker.scoring import confined
from worker.scoring.sandbox import Ran, SandboxUnfit, run_tests


def run(code: str, tests: str = "", *, timeout_s: float = 5) -> Ran:
    return run_tests(code, tests, timeout_s=timeout_s)


@pytest.mark.parametrize(
    ("code", "tests", "passed"),
    [
        ("def f(x):\n    return x + 1", "assert f(1) == 2", True),
        ("def f(x):\n    return x", "assert f(1) == 2", False),
        ("import collections, decimal, json, math, re, statistics", "assert math.sqrt(4) == 2", True),
        ("def f(:", "", False),
        ("print('x' * 10)\nif __name__ == '__main__':\n    input()", "", True),
        ("\ud800", "", False),
    ],
)
def test_tests_decide(code: str, tests: str, passed: bool) -> None:
    assert run(code, tests).passed is passed


@pytest.mark.parametrize(
    "code",
    [
        "import os; os._exit(0)",
        "raise SystemExit(0)",
        "import sys; sys.exit()",
        "import os\nfor fd in range(64):\n    try: os.close(fd)\n    except OSError: pass",
        "class E(Exception):\n    def __str__(self): raise SystemExit(0)\nraise E",
        "import os, sys; os.write(int(sys.argv[1]), b'passed')",
    ],
)
def test_an_early_end_is_no_success(code: str) -> None:
    assert not run(code, "assert False").passed


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import time; time.sleep(1000)",
        "import signal\nfor s in (1, 2, 3, 14, 15): signal.signal(s, signal.SIG_IGN)\nwhile True: pass",
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "'x' * 10 ** 9 if False else sum(i for i in iter(int, 1))",
    ],
)
def test_what_never_ends_is_ended(code: str) -> None:
    assert run(code, timeout_s=0.5).told == "it did not end by itself"


@pytest.mark.parametrize(
    "code",
    [
        "import os\nwhile True: os.fork()",
        "import os\nos.fork()",
        "import os\nos.posix_spawn('/bin/true', ['true'], {})",
        "import subprocess\nsubprocess.run(['true'], check=True)",
        "import os\nos.execv('/bin/true', ['true'])",
        "import multiprocessing as m\nm.Process(target=print).start()",
        "import threading\nthreading.Thread(target=print).start()",
        "import ctypes\nassert ctypes.CDLL(None).vfork() >= 0",
    ],
)
def test_no_process_comes_of_it(code: str) -> None:
    before = _python_processes()
    assert not run(code).passed
    assert _python_processes() <= before


def test_memory_is_bounded() -> None:
    assert run("x = bytearray(2 ** 40)").told == "MemoryError: "
    assert not run("x = []\nwhile True: x.append(bytearray(2 ** 20))", timeout_s=20).passed


@pytest.mark.parametrize(
    "code",
    [
        "while True: print('x' * 1_000_000)",
        "import os\nwhile True: os.write(1, b'x' * 1_000_000)",
        "import os, sys\nwhile True: os.write(int(sys.argv[1]), b'x' * 60_000)",
        "import os, sys\nwhile True: os.write(int(sys.argv[1]), b'\\n' * 60_000)",
    ],
)
def test_output_goes_nowhere(code: str) -> None:
    ran = run(code, timeout_s=1)
    assert not ran.passed
    assert len(ran.told) <= 8192


def test_its_files_are_its_own_small_and_gone_afterwards() -> None:
    assert run("open('x', 'w').write('1')", "assert open('x').read() == '1'").passed
    assert not run("open('x', 'wb').write(b'x' * (20 << 20))").passed
    assert not run("for n in range(50):\n    open(str(n), 'wb').write(b'x' * (1 << 20))").passed
    assert not run("files = [open(str(n), 'w') for n in range(100)]").passed
    assert not run("open('x')").passed, "a file of the run before"


@pytest.fixture
def victim() -> Iterator[Path]:
    """A file that anyone may write, in a place that anyone may enter."""
    place = Path("/var/tmp") / f"verdraft-victim-{os.getpid()}"  # noqa: S108  (the very point)
    place.write_text("whole")
    place.chmod(0o666)
    yield place
    place.unlink()


@pytest.mark.parametrize("mode", ["w", "r", "a"])
def test_it_reaches_no_file_outside(victim: Path, mode: str) -> None:
    assert not run(f"open({str(victim)!r}, {mode!r})").passed
    assert not run(f"import os; os.unlink({str(victim)!r})").passed
    assert victim.read_text() == "whole"


@pytest.mark.parametrize(
    "path", ["/etc/shadow", "/etc/passwd", "/proc/1/environ", "/proc/self/environ", str(Path(confined.__file__))]
)
def test_it_reads_neither_secrets_nor_the_service(path: str) -> None:
    assert Path(path).exists()
    assert not run(f"open({path!r}).read()").passed


def test_it_is_given_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERDRAFT_DATABASE_URL", "postgresql://secret")
    assert run("import os", "assert 'secret' not in str(os.environ)").passed
    assert run("import sys", "assert not any('site-packages' in path for path in sys.path)").passed


def test_deleting_everything_deletes_nothing() -> None:
    library = Path(os.__file__).parent
    before = sorted(library.iterdir())
    run("import shutil\nshutil.rmtree('/', ignore_errors=True)")
    assert sorted(library.iterdir()) == before
    assert run("import json", "assert json").passed


def test_it_has_no_network() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.5)
        address = server.getsockname()
        assert not run(f"import socket\nsocket.create_connection({address!r}, 1)").passed
        assert not run("import ctypes\nassert ctypes.CDLL(None).socket(1, 1, 0) >= 0").passed
        with pytest.raises(TimeoutError):
            server.accept()


def test_it_signals_nobody() -> None:
    caught: list[int] = []
    previous = signal.signal(signal.SIGUSR1, lambda number, _: caught.append(number))
    try:
        for target in (os.getpid(), "os.getppid()", 0, -1):
            assert not run(f"import os, signal\nos.kill({target}, signal.SIGUSR1)").passed
            run(f"import os, signal\nos.kill({target}, signal.SIGKILL)")
    finally:
        signal.signal(signal.SIGUSR1, previous)
    assert caught == []


@pytest.mark.parametrize(
    "call",
    [
        "prctl(1, 0, 0, 0, 0)",
        "setsid()",
        "unshare(0x10000000)",
        "ptrace(16, 1, 0, 0)",
        "chroot(b'/')",
        "mount(b'none', b'/', b'tmpfs', 0, 0)",
        "syscall(425, 8, 0)",
        "setuid(0)",
    ],
)
def test_it_cannot_loosen_its_bonds(call: str) -> None:
    assert run("import ctypes", f"assert ctypes.CDLL(None).{call} == -1").passed


def test_limits_cannot_be_raised() -> None:
    assert not run("import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))").passed
    assert run(
        "import os, resource", "assert os.getuid() == 65534 or resource.getrlimit(resource.RLIMIT_NPROC) == (0, 0)"
    )


def test_nothing_is_left_mounted_or_in_the_temporary_directory() -> None:
    before = Path("/proc/self/mounts").read_text()
    run("open('x', 'w').write('1')")
    run("while True: pass", timeout_s=0.3)
    assert Path("/proc/self/mounts").read_text() == before


def test_the_layers_of_this_host_are_known() -> None:
    ran = run("x = 1")
    assert ran.lacking == {} or set(ran.lacking) <= {
        "namespaces",
        "own file system",
        "unprivileged user",
        "system call filter",
    }


@pytest.mark.parametrize(
    ("lacking", "unfit"),
    [
        (set[str](), False),
        ({"namespaces", "own file system"}, False),
        ({"system call filter"}, False),
        ({"unprivileged user"}, False),
        ({"namespaces", "system call filter"}, True),
        ({"own file system", "unprivileged user"}, True),
        ({"standard library"}, True),
    ],
)
def test_without_the_layers_that_matter_nothing_is_run(lacking: set[str], unfit: bool) -> None:
    assert confined._unfit(dict.fromkeys(lacking, "")) is unfit


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_an_unprivileged_worker_confines_as_well(tmp_path: Path) -> None:
    """The same program, started by a user without rights; namespaces then come by a user namespace, where permitted."""
    child = os.fork()
    if not child:  # pragma: no cover  (it ends below)
        with suppress(BaseException):
            os.setresgid(1234, 1234, 1234)
            os.setresuid(1234, 1234, 1234)
            try:
                ran = run("import os\ndef f():\n    return 2", "assert f() == 2")
                os._exit(0 if ran.passed and "unprivileged user" in ran.lacking else 1)
            except (SandboxUnfit, OSError):
                os._exit(2)
        os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) in {0, 2}


def test_many_at_once_do_not_take_from_each_other() -> None:
    found: list[bool] = []
    threads = [threading.Thread(target=lambda: found.append(run("x = 1", "assert x").passed)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 6


def _python_processes() -> set[int]:
    return {p.pid for p in psutil.process_iter(["cmdline"]) if "confined.py" in " ".join(p.info["cmdline"] or ())}
