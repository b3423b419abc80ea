"""The client process: for each directory that it is told, fork, pin, freeze, replay, write.

Started by ``worker.replay.process`` only. A line of stdin is a directory with a plan, as JSON; the line of
stdout that answers it is the exit code of its replay.
"""

import contextlib
import ctypes
import gc
import json
import os
import resource
import signal
import sys
import time
import traceback
from pathlib import Path

from worker.replay.generator import ReplayLoop
from worker.replay.plan import ReplayPlan, decode_plan
from worker.replay.reads import ReadLog
from worker.replay.recording import Stamps, prepare, write_recording

PLAN_NAME = "plan.json"
STDERR_NAME = "client.stderr"
PREFERRED_NICENESS = -10
_PR_SET_PDEATHSIG = 1
_KIB = 1024


def main() -> None:
    """Answer requests until stdin is closed; SIGTERM stops the replay that runs, or this process if none does."""
    _die_with_parent()
    prepare()
    gc.collect()
    gc.freeze()  # what all replays share is neither collected nor copied in a child
    for line in sys.stdin:
        sys.stdout.write(f"{_replay_in_child(Path(json.loads(line)))}\n")
        sys.stdout.flush()


def _replay_in_child(directory: Path) -> int:
    """The exit code of the child; negative where a signal ended it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # no signal is lost while it has two readers
    child = os.fork()
    if child == 0:
        _become_client(directory)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    _, status = os.waitpid(child, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return os.waitstatus_to_exitcode(status)


def _become_client(directory: Path) -> None:
    """Replay and exit; what goes wrong is told on stderr, which is a file of the directory."""
    returncode = 1
    try:
        _die_with_parent()
        os.chdir(directory)  # tells replays apart for whoever looks at the process
        _redirect(directory)
        _replay(directory)
        returncode = 0
    except BaseException:  # noqa: BLE001  (never back into the loop of the parent)
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(returncode)


def _redirect(directory: Path) -> None:
    stderr = os.open(directory / STDERR_NAME, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream, target in ((0, nothing), (1, nothing), (2, stderr)):
        os.dup2(target, stream)


def _replay(directory: Path) -> None:
    plan = decode_plan((directory / PLAN_NAME).read_bytes())
    (directory / PLAN_NAME).unlink()  # it holds prompts, which may be private, and a killed worker leaves its files
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    priority = _claim_host(plan)
    log = ReadLog(directory / "reads")
    loop = ReplayLoop(plan, log)
    signal.signal(signal.SIGTERM, lambda *_: loop.cancel())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    gc.collect()
    gc.freeze()
    gc.disable()
    before_ns = time.process_time_ns()
    loop.run()
    cpu_ns = time.process_time_ns() - before_ns
    _release_priority(niceness)
    stamps = Stamps(
        started_monotonic_ns=loop.origin_ns,
        priority=priority,
        stamped_by=loop.stamped_by,
        cpu_ns=cpu_ns,
        spun_ns=loop.spun_ns,
        peak_rss_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB,
        exchanges=tuple(pending.exchange(loop.origin_ns) for pending in loop.agenda.everything),
    )
    write_recording(directory, stamps, log)


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
    main()
