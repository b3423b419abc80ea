"""A program of its own (``python -I -S confined.py``): confines itself, then runs an answer's code and its tests.

It imports nothing of ours and trusts nothing that it runs. What each layer is for, and what none of them keeps off,
is in ``docs/quality.md``. A layer that this host does not permit is reported, never skipped in silence.
"""

import ctypes
import json
import os
import platform
import resource
import signal
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType
from typing import Any

NOBODY = 65534
MEMORY_BYTES = 512 << 20
FILE_BYTES = 16 << 20
FILES = 64
REPORTED = 300
_NEW_NAMESPACES = 0x00020000 | 0x20000000 | 0x40000000 | 0x08000000 | 0x04000000
"""Mounts, process ids, network, IPC, host name."""
_NEW_USER = 0x10000000
_BIND, _REMOUNT, _RECURSIVE, _PRIVATE = 4096, 32, 16384, 1 << 18
_READ_ONLY, _NO_SUID, _NO_DEVICES = 1, 2, 4
_DEATH_SIGNAL, _SECCOMP, _NO_NEW_PRIVILEGES, _FILTER = 1, 22, 38, 2
_ALLOW, _EPERM, _KILL = 0x7FFF0000, 0x00050001, 0x80000000
_X32 = 0x40000000
_DENIED = {
    # socket connect clone fork vfork execve kill ptrace setpgid setsid prctl chroot mount umount2 tkill tgkill add_key
    # request_key keyctl unshare perf_event_open open_by_handle_at setns process_vm_readv process_vm_writev bpf execveat
    # userfaultfd pidfd_send_signal io_uring_setup open_tree move_mount fsopen pidfd_open clone3
    "x86_64": (
        0xC000003E,
        (
            "41 42 56 57 58 59 62 101 109 112 157 161 165 166 200 234 248 249 250 272 298 304 308 310 311 321 322 323 "
            "424 425 428 429 430 434 435"
        ),
    ),
    "aarch64": (
        0xC00000B7,
        (
            "198 203 220 221 129 117 154 157 167 51 40 39 130 131 217 218 219 97 241 265 268 270 271 280 281 282 "
            "424 425 428 429 430 434 435"
        ),
    ),
}
"""Processor → what Linux calls it, and the calls that answers may not make."""

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Read the plan from standard input, confine, run, report on the descriptor that the command line names."""
    report = int(sys.argv[1])
    plan: dict[str, Any] = json.load(sys.stdin.buffer)
    lacking: dict[str, str] = {}
    _libc.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    _attempt(lacking, "namespaces", _enter_namespaces)
    child = os.fork()  # the first process of the new process ids, where there are such
    if child:
        _wait(child, plan["timeout_s"])
        os._exit(0)
    try:
        _confine(plan, lacking, report)
        outcome = _outcome(plan["code"], plan["tests"], plan["token"])
    except BaseException as error:  # noqa: BLE001  (whatever the answer raised is its outcome)
        outcome = _told(error)
    with suppress(OSError):
        os.write(report, outcome.encode(errors="replace"))
    os._exit(0)


def _wait(child: int, timeout_s: float) -> None:
    def end(_: int, __: FrameType | None) -> None:
        os.kill(child, signal.SIGKILL)

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, timeout_s)
    os.waitpid(child, 0)


def _confine(plan: dict[str, Any], lacking: dict[str, str], report: int) -> None:
    """Layer by layer, the last one after which nothing can be undone; then say what is lacking."""
    os.chdir(plan["scratch"])
    if "namespaces" in lacking:
        lacking["own file system"] = lacking["namespaces"]
    else:
        _attempt(lacking, "own file system", lambda: _own_file_system(plan["scratch"]))
    _limit(plan["timeout_s"])
    _attempt(lacking, "unprivileged user", _become_nobody)
    _close_all_but(report)
    if _libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or _libc.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl was refused")
    _attempt(lacking, "system call filter", _filter_calls)
    if not os.access(os.path.dirname(os.__file__), os.R_OK | os.X_OK):  # noqa: PTH120  (pathlib would be one more import)
        lacking["standard library"] = "the unprivileged user cannot read it"
    unfit = _unfit(lacking)
    os.write(report, json.dumps(lacking | ({"unfit": ""} if unfit else {})).encode() + b"\n")
    if unfit:
        os._exit(0)


def _unfit(lacking: dict[str, str]) -> bool:
    """Without these nothing is run: no network, and neither our files nor our processes in reach."""
    exposed = {"namespaces", "system call filter"} <= lacking.keys()
    reachable = {"own file system", "unprivileged user"} <= lacking.keys()
    return exposed or reachable or "standard library" in lacking


def _attempt(lacking: dict[str, str], layer: str, confine: Callable[[], None]) -> None:
    try:
        confine()
    except OSError as error:
        lacking[layer] = str(error)[:REPORTED]


def _enter_namespaces() -> None:
    uid, gid = os.getuid(), os.getgid()
    if _libc.unshare(_NEW_NAMESPACES) == 0:
        return
    _checked(_libc.unshare(_NEW_NAMESPACES | _NEW_USER), "unshare")
    for name, line in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123  (no further import)
            file.write(line)


def _own_file_system(scratch: str) -> None:
    """A small one in memory, with the standard library and what it links to, read-only."""
    _mount(None, "/", None, _RECURSIVE | _PRIVATE)
    _mount("tmpfs", scratch, "tmpfs", _NO_SUID | _NO_DEVICES, f"size={FILE_BYTES},nr_inodes=1000,mode=755")
    os.mkdir(f"{scratch}/work")  # noqa: PTH102
    os.chmod(f"{scratch}/work", 0o777)  # noqa: PTH101, S103  (it is the answer's own)
    for path in _libraries():
        inside = scratch + path
        os.makedirs(inside, exist_ok=True)  # noqa: PTH103
        _mount(path, inside, None, _BIND)
        _mount(None, inside, None, _BIND | _REMOUNT | _READ_ONLY | _NO_SUID | _NO_DEVICES)
    for path in ("/lib", "/lib64"):
        if os.path.islink(path):  # noqa: PTH114
            os.symlink(os.readlink(path), scratch + path)  # noqa: PTH115, PTH211
    os.chroot(scratch)
    os.chdir("/work")


def _libraries() -> Iterator[str]:
    """Directories, none within another."""
    kept: list[str] = []
    standard = os.path.dirname(os.__file__)  # noqa: PTH120
    for path in ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/local/lib", f"{sys.base_prefix}/lib", standard):
        is_new = not any(path == known or path.startswith(f"{known}/") for known in kept)
        if is_new and os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114
            kept.append(path)
            yield path


def _limit(timeout_s: float) -> None:
    seconds = int(timeout_s) + 1
    for limit, value in (
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_NOFILE, FILES),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        resource.setrlimit(limit, (value, value))


def _become_nobody() -> None:
    try:
        if os.getuid() != 0:
            raise PermissionError("the worker is not root, so that it cannot become another user")
        with suppress(OSError):  # in a user namespace of one user there are no groups to leave
            os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    finally:
        # Only now: what counts against the limit is the new user's.
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def _close_all_but(report: int) -> None:
    """Nothing of what the worker has open, and nowhere to write but the report."""
    nowhere = os.memfd_create("nowhere")
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.closerange(3, report)
    os.closerange(report + 1, FILES * 16)


def _filter_calls() -> None:
    if platform.machine() not in _DENIED:
        raise OSError(f"no list of system calls for {platform.machine()}")
    architecture, denied = _DENIED[platform.machine()]
    calls = [int(number) for number in denied.split()]
    steps = [(0x20, 0, 0, 4), (0x15, 1, 0, architecture), (0x06, 0, 0, _KILL), (0x20, 0, 0, 0)]
    steps += [(0x35, 0, 1, _X32), (0x06, 0, 0, _KILL)]
    steps += [(0x15, len(calls) - place, 0, call) for place, call in enumerate(calls)]
    steps += [(0x06, 0, 0, _ALLOW), (0x06, 0, 0, _EPERM)]
    packed = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(packed))
    _checked(_libc.prctl(_SECCOMP, _FILTER, program, 0, 0), "seccomp")


def _outcome(code: str, tests: str, token: str) -> str:
    """The token where everything ran to its end; nothing else is taken for success."""
    scope: dict[str, Any] = {"__name__": "answer"}
    exec(compile(code, "answer", "exec"), scope)  # noqa: S102  (this process is made for it)
    exec(compile(tests, "tests", "exec"), scope)  # noqa: S102  (as above)
    return token


def _told(error: BaseException) -> str:
    with suppress(BaseException):  # its text is code of the answer, too
        return f"{type(error).__name__}: {error}"[:REPORTED]
    return "an exception that cannot be told"


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    words = [None if word is None else word.encode() for word in (source, target, kind, options)]
    _checked(_libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]), f"mount {target}")


def _checked(status: int, what: str) -> None:
    if status != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    main()
