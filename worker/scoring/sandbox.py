"""Runs one answer's code with its tests in a process of its own (``confined.py``) and says how that ended."""

import json
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROGRAM: Final = Path(__file__).with_name("confined.py")
START_S: Final = 5.0
"""A host under load may take this long to start an interpreter, or to end one, beside the time that tests have."""
REPORT_BYTES_MAX: Final = 8192


class SandboxUnfit(RuntimeError):
    """This host cannot confine a program well enough to run one; nothing was run."""


@dataclass(frozen=True, slots=True)
class Ran:
    """``lacking`` names the layers that this host does not permit, each with the reason."""

    passed: bool
    told: str
    lacking: dict[str, str]


def run_tests(code: str, tests: str, *, timeout_s: float, cores: Sequence[int] = ()) -> Ran:
    """Whether the code and then its tests ran to their end. Raises ``SandboxUnfit``."""
    token = secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="verdraft-answer-") as scratch:
        plan = {"code": code, "tests": tests, "token": token, "timeout_s": timeout_s, "scratch": scratch}
        said = _report(json.dumps(plan).encode(errors="replace"), timeout_s, cores)
    head, _, outcome = said.partition("\n")
    if not head:
        raise SandboxUnfit("the process that should have confined itself said nothing")
    lacking = _lacking(head)
    if not outcome and "unfit" in lacking:
        raise SandboxUnfit("; ".join(f"no {layer}: {why}" for layer, why in lacking.items() if layer != "unfit"))
    return Ran(outcome == token, "passed" if outcome == token else outcome or "it did not end by itself", lacking)


def _lacking(head: str) -> dict[str, str]:
    try:
        return {str(layer): str(why) for layer, why in json.loads(head).items()}
    except (ValueError, AttributeError):
        raise SandboxUnfit(f"the process that should have confined itself said {head[:200]!r}") from None


def _report(plan: bytes, timeout_s: float, cores: Sequence[int]) -> str:
    """What the process wrote, no more than ``REPORT_BYTES_MAX``, until it ended or its time was over."""
    reading, writing = os.pipe()
    argv = (sys.executable, "-I", "-S", str(_PROGRAM), str(writing))
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(writing,),
            env={},
            cwd="/",
            start_new_session=True,
        )
    finally:
        os.close(writing)
    try:
        if cores:
            os.sched_setaffinity(child.pid, cores)
        if child.stdin is not None:
            with suppress(BrokenPipeError):
                child.stdin.write(plan)
                child.stdin.close()
        return _read(reading, time.monotonic() + timeout_s + START_S).decode(errors="replace")
    finally:
        os.close(reading)
        _end(child)


def _read(descriptor: int, deadline_s: float) -> bytes:
    said = b""
    while len(said) <= REPORT_BYTES_MAX and (left := deadline_s - time.monotonic()) > 0:
        if not select.select([descriptor], [], [], left)[0] or not (more := os.read(descriptor, REPORT_BYTES_MAX)):
            break
        said += more
    return said[:REPORT_BYTES_MAX]


def _end(child: subprocess.Popen[bytes]) -> None:
    """The whole group: what it runs can neither leave it nor outlive its first process."""
    with suppress(subprocess.TimeoutExpired):
        child.wait(0.2)
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
