"""The client process: pin, freeze, replay, write. Started by ``worker.replay.process`` only."""

import contextlib
import ctypes
import gc
import os
import resource
import signal
import sys
from pathlib import Path

from worker.replay.generator import ReplayLoop
from worker.replay.plan import ReplayPlan, decode_plan
from worker.replay.recording import Recording, write_recording

PREFERRED_NICENESS = -10
_PR_SET_PDEATHSIG = 1


def main(plan_path: Path, directory: Path) -> None:
    """Replay the plan of ``plan_path`` and leave the recording in ``directory``."""
    _die_with_parent()
    plan = decode_plan(plan_path.read_bytes())
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    priority = _claim_host(plan)
    loop = ReplayLoop(plan)
    signal.signal(signal.SIGTERM, lambda *_: loop.cancel())
    gc.collect()
    gc.freeze()
    gc.disable()
    exchanges = loop.run()
    _release_priority(niceness)
    write_recording(directory, Recording(loop.origin_ns, priority, exchanges))


def _die_with_parent() -> None:
    """Nobody would collect the recording of a worker that is gone, and nobody would stop the load."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _claim_host(plan: ReplayPlan) -> str:
    """Take cores, file limit and priority; the priority that the host granted is returned and recorded."""
    if plan.cores:
        os.sched_setaffinity(0, plan.cores)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # Refusals are no error: an unprivileged client measures too, and its lateness says how well.
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        return "real-time"
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, PREFERRED_NICENESS)
    return f"nice {os.getpriority(os.PRIO_PROCESS, 0)}"


def _release_priority(niceness: int) -> None:
    """Writing the recording must not outrank an engine that is still at work."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    os.setpriority(os.PRIO_PROCESS, 0, niceness)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
