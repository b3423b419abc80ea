"""The sampler's process. A line of stdin asks for a reading of everything; the end of stdin ends it.

Started by ``worker.telemetry.sampling`` only; its argument is a plan. It says ``ready``, then ``taken`` to each line.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
from pathlib import Path

from worker.telemetry.plan import NS_PER_S, decode
from worker.telemetry.sampler import Sampler

NICENESS = 5
_PR_SET_PDEATHSIG = 1
_STDIN, _STDOUT = 0, 1


def main() -> None:
    """Sample until nobody wants it any more."""
    plan = decode(sys.argv[1])
    _keep_to_itself(plan.cores)
    descriptor = os.open(Path(plan.path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    sampler = Sampler(plan, descriptor)
    sampler.take_all()
    os.write(_STDOUT, b"ready\n")
    while (asked := _asked(sampler.take_due())) != b"":
        for _ in range((asked or b"").count(b"\n")):
            sampler.take_all()
            os.write(_STDOUT, b"taken\n")
    sampler.take_all()
    sampler.end()
    os._exit(0)  # the worker waits for this, and nothing is left to be put away


def _asked(patience_ns: int) -> bytes | None:
    """What stdin says by then; nothing at its end, ``None`` where it is silent."""
    readable, _, _ = select.select([_STDIN], [], [], patience_ns / NS_PER_S)
    return os.read(_STDIN, 4096) if readable else None


def _keep_to_itself(cores: tuple[int, ...]) -> None:
    """Die with the worker even when stuck in a driver, give way to the client, and leave ^C to the worker."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):  # where it may not, its samples are late, and say so
        if cores:
            os.sched_setaffinity(0, cores)
        os.nice(NICENESS)


if __name__ == "__main__":
    main()
