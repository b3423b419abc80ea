"""A stand-in for ``vllm serve`` whose start-up and death follow a script; it serves no tokens of any meaning.

Run as ``python scripted_server.py MODE SOCKET``; see ``MODES``.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingUnixStreamServer

CONFIG_ERROR = "ValueError: Unsupported speculative method: 'mtp'"
IDLE_METRICS = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0"} RUNNING
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0"} 0.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0"} 0.25
# TYPE vllm:prompt_tokens counter
vllm:prompt_tokens_total{engine="0"} 7.0
"""


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Handler(BaseHTTPRequestHandler):
    """The few routes that readiness and scrapes ask for."""

    mode = "serve"

    def do_GET(self) -> None:
        running = "1.0" if self.mode == "busy" else "0.0"
        bodies = {
            "/health": "",
            "/v1/models": json.dumps({"data": [{"id": "target"}]}),
            "/metrics": IDLE_METRICS.replace("RUNNING", running),
            "/server_info?config_format=json": json.dumps({"vllm_config": {"cache_config": {"block_size": 128}}}),
        }
        self._answer(200, bodies[self.path])

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.mode == "mute":
            time.sleep(60)
        if self.mode == "first-request-dies":
            say("(Worker pid=1) ERROR 01-01 00:00:00 [x.py:1] RuntimeError: shape is invalid")
            self._answer(500, "{}")
            return
        choice = {"index": 0, "text": "a", "token_ids": [5], "finish_reason": "length"}
        event = {"error": {"message": "engine died"}} if self.mode == "error-in-stream" else {"choices": [choice]}
        self._answer(200, f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n")

    def _answer(self, status: int, body: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def address_string(self) -> str:
        return "unix"


def die() -> None:
    say(CONFIG_ERROR)
    sys.exit(1)


def hang() -> None:
    say("loading")
    time.sleep(600)


def ignore_terminate() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def leave_orphan() -> None:
    """Double fork into a session of its own: no longer a child, and in no group of ours."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(600)
        os._exit(0)


def leave_hidden() -> None:
    """As ``leave_orphan``, and with an environment that tells nothing; its pid is written where ``HIDDEN`` says."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            sleeper = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
            os.execve(sys.executable, [sys.executable, "-c", sleeper, os.environ["HIDDEN"]], {})  # noqa: S606
        os._exit(0)


MODES: dict[str, Callable[[], None]] = {
    "die": die,
    "hang": hang,
    "deaf": ignore_terminate,
    "orphan": leave_orphan,
    "hidden": leave_hidden,
}


def main(mode: str, socket_path: str) -> None:
    """Follow the script, then serve."""
    MODES.get(mode, lambda: None)()
    Handler.mode = mode
    ThreadingUnixStreamServer(socket_path, Handler).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
