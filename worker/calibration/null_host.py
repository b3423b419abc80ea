"""``python -m worker.calibration.null_host CORES SOCKET``: become the null engine, on those cores.

What must be settled before it serves: where and with what priority it runs, how many connections it may hold,
and that it does not outlive whoever started it.
"""

import ctypes
import os
import resource
import signal
import sys
from contextlib import suppress

_PR_SET_PDEATHSIG = 1


def main(cores: str, socket_path: str) -> None:
    """Never returns."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    # As the client's: over a unix socket an arrival is stamped when it is read, and a judge who waits blames it.
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    os.execv(sys.executable, (sys.executable, "-m", "worker.replay.null_engine", "--uds", socket_path))  # noqa: S606


if __name__ == "__main__":
    main(*sys.argv[1:])
