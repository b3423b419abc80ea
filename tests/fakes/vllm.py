"""An executable stand-in for ``vllm serve``: same flags, log, routes and metrics; a simulated engine on dials.

It is a server, not a mock: what runs against it runs the same code as against the real one.
"""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.fakes.arguments import parser
from tests.fakes.completions import ApiServer
from tests.fakes.dials import TARGET_ONLY, Dials, Faults, read_dials
from tests.fakes.engine import SimulatedEngine
from tests.fakes.loopback import listen
from tests.fakes.metrics import SPECULATION, EngineMetrics
from tests.fakes.recorder import recording
from tests.fakes.startup_log import StartupLog

ORPHAN_LIFE_S = 60
OOM_LINE = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has 1.20 GiB free."


def main() -> int:
    """What ``bin/vllm`` of the fake runtime runs."""
    arguments = parser().parse_args()
    log = StartupLog(arguments)
    log.begin()
    speculation = arguments.speculative_config
    method = speculation["method"] if speculation else TARGET_ONLY
    refusal = _refusal(arguments)
    if refusal is not None:
        log.refuse("ValidationError", "VllmConfig", refusal)
        return 1
    dials = read_dials(Path(arguments.model_tag))
    log.say(dials.warns_of(method))
    if not _starts(dials.faults_of(method), log):
        return 1
    asyncio.run(_serve(arguments, dials, method, log))
    return 0


def _refusal(arguments: argparse.Namespace) -> str | None:
    """Configurations that vLLM refuses at start-up."""
    speculation = arguments.speculative_config
    if not Path(arguments.model_tag).is_dir():
        return f"Can't load the configuration of '{arguments.model_tag}': it is not a directory or model id"
    if arguments.per_request_spec_decode_metrics != "none" and speculation is None:
        return "per_request_spec_decode_metrics requires speculative decoding to be enabled"
    if speculation is None:
        return None
    if (speculation.get("num_speculative_tokens") or 0) <= 0:
        return "num_speculative_tokens must be greater than zero"
    draft = speculation.get("model")
    return f"Can't load the draft model '{draft}'" if draft is not None and not Path(draft).is_dir() else None


def _starts(faults: Faults, log: StartupLog) -> bool:
    """Go through start-up with its faults; whether the engine came up."""
    if faults.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if faults.orphan:
        _leave_orphan()
    log.initialise()
    time.sleep(faults.slow_start_s)
    while faults.hang_at_startup:
        time.sleep(1)
    if faults.oom_text or faults.die_at_startup:
        log.crash(OOM_LINE if faults.oom_text else "RuntimeError: the simulated engine cannot start")
        return False
    log.loaded()
    return True


def _leave_orphan() -> None:
    """A process two forks away, in its own session: only its environment says where it came from."""
    sleeper = f"import time; time.sleep({ORPHAN_LIFE_S})"
    launcher = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]], start_new_session=True)"
    subprocess.run([sys.executable, "-c", launcher, sleeper], check=True)


async def _serve(arguments: argparse.Namespace, dials: Dials, method: str, log: StartupLog) -> None:
    k = arguments.speculative_config["num_speculative_tokens"] if arguments.speculative_config else 0
    name = (arguments.served_model_name or [arguments.model_tag])[0]
    faults = dials.faults_of(method)
    shows = dials.exposes_speculation_of(method)
    metrics = EngineMetrics(name, k or int(shows), hides=(*dials.hides, *(() if shows else (SPECULATION,))))
    session = arguments.uds or str(arguments.port)
    engine = SimulatedEngine(dials, method, k, max_num_seqs=arguments.max_num_seqs, metrics=metrics, session=session)
    resolves = dials.resolves_of(method) if dials.has_server_info else None
    answer = ApiServer(arguments, engine, metrics, faults, log=log, resolves=resolves).answer
    if dials.is_faithful:
        from tests.fakes.faithful import FaithfulServer  # noqa: PLC0415  (loads much that no other fake needs)

        answer = FaithfulServer(arguments, method, k, metrics, log).answer
    stop = asyncio.Event()
    if not faults.ignore_sigterm:
        for signal_number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    answer = recording(answer, method, dials.record_to)
    server = await listen(answer, socket_path=arguments.uds, host=arguments.host, port=arguments.port)
    log.serving()
    await stop.wait()
    server.close()
    await asyncio.sleep(faults.slow_stop_s)
    log.stopped()
    # vLLM, too, does not wait for its clients.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
