"""A process that takes processor time and memory when it is told to, and says when it has."""

import os
import subprocess
import sys
from types import TracebackType
from typing import Self

_PROGRAM = """
import sys, time
kept = []
for line in sys.stdin:
    what, amount = line.split()
    if what == "burn":
        until = time.process_time() + float(amount)
        while time.process_time() < until:
            pass
    else:
        kept.append(b"x" * int(amount))
    print(flush=True)
"""
_DOUBLE_FORK = """
import os, sys
if os.fork() == 0:
    os.setsid()
    os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
"""


class Burner:
    """The process, with ``environment`` added to its own; ``detached`` ones are grandchildren in a session apart."""

    def __init__(self, *, detached: bool = False, **environment: str) -> None:
        argv = (sys.executable, "-c", _PROGRAM)
        argv = (sys.executable, "-c", _DOUBLE_FORK, _PROGRAM) if detached else argv
        pipe, whole = subprocess.PIPE, {**os.environ, **environment}
        self._process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, env=whole)

    @property
    def pid(self) -> int:
        """Of the first process."""
        return self._process.pid

    def burn(self, seconds: float) -> None:
        """Returns when it has used so much processor time."""
        self._tell(f"burn {seconds}")

    def allocate(self, count: int) -> None:
        """Returns when it holds so many bytes more, each of them written."""
        self._tell(f"hold {count}")

    def first_has_ended(self) -> None:
        """Returns when the first process has ended and been waited for."""
        self._process.wait()

    def kill(self) -> None:
        """End it at once, and wait for it."""
        self._process.kill()
        self._process.wait()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "\n"

    def __enter__(self) -> Self:
        self.burn(0)  # it has started up
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
