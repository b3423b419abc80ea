"""Record what GPUs and host do: ``python -m worker.telemetry --gpus all --seconds 20 --output FILE``.

Needs nothing but ``pynvml``, so that it runs from a source checkout on any host. Says at the end what it cost.
"""

import argparse
import os
import sys
import time
from pathlib import Path

from worker import nvml
from worker.telemetry.plan import NS_PER_S, SamplingPlan
from worker.telemetry.sampler import Sampler


def main() -> None:
    """Sample in this process until the time is up, or ^C."""
    plan, seconds = _plan(_parser().parse_args())
    descriptor = os.open(plan.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
    sampler = Sampler(plan, descriptor)
    began_ns, began_cpu_s = time.monotonic_ns(), time.process_time()
    sampler.take_all()
    try:
        while time.monotonic_ns() - began_ns < seconds * NS_PER_S:
            time.sleep(sampler.take_due() / NS_PER_S)
    except KeyboardInterrupt:
        pass
    sampler.take_all()
    sampler.end()
    _tell_cost(plan, (time.monotonic_ns() - began_ns) / NS_PER_S, time.process_time() - began_cpu_s)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m worker.telemetry", description="Record GPUs and host into a file.")
    parser.add_argument("--gpus", default="", help="all, or UUIDs with commas between; none without this")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--engine-pid", type=int, help="first process of the tree that counts as the engine")
    parser.add_argument("--recording", type=Path, help="a recording that stands in for GPUs")
    parser.add_argument("--rate-hz", type=float, default=10.0, help="of power and clocks")
    return parser


def _plan(asked: argparse.Namespace) -> tuple[SamplingPlan, float]:
    gpus = tuple(gpu.uuid for gpu in nvml.gpus()) if asked.gpus == "all" else tuple(filter(None, asked.gpus.split(",")))
    if asked.gpus == "all" and not gpus:
        sys.stderr.write("no driver, or no GPU: the host alone is recorded\n")
    plan = SamplingPlan(
        path=str(asked.output),
        gpus=gpus,
        engine_pid=asked.engine_pid,
        recording=asked.recording and str(asked.recording),
        fast_ns=round(NS_PER_S / asked.rate_hz),
    )
    return plan, asked.seconds


def _tell_cost(plan: SamplingPlan, wall_s: float, cpu_s: float) -> None:
    size = Path(plan.path).stat().st_size
    sys.stdout.write(
        f"{len(plan.gpus)} GPUs, {wall_s:.1f} s: sampling took {cpu_s / wall_s:.2%} of a core "
        f"and {size / wall_s / 1024:.1f} KiB/s\n"
    )


if __name__ == "__main__":
    main()
