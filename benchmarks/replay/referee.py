"""The null engine as referee: what really happened to each request, by the server's clock."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TTFT_MS = 50
GAP_MS = 5


@dataclass(frozen=True, slots=True)
class Served:
    """One request as the server saw it; nanoseconds on the monotonic clock."""

    request_id: str
    arrived_ns: int
    departed_ns: tuple[int, ...]
    chunk_tokens: tuple[int, ...]

    @property
    def ttft_ns(self) -> int:
        return self.departed_ns[0] - self.arrived_ns

    @property
    def gaps_ns(self) -> tuple[int, ...]:
        return tuple(later - earlier for earlier, later in pairwise(self.departed_ns))


@dataclass(frozen=True, slots=True)
class Referee:
    """A running null engine: on ``port`` of loopback, or at ``socket_path``."""

    pid: int
    port: int
    socket_path: str | None

    def log(self) -> list[Served]:
        """Requests in the order of their arrival; over TCP only."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/referee", timeout=120) as answer:
            return read_log(answer.read())


def read_log(document: bytes) -> list[Served]:
    """Requests in the order of their arrival."""
    entries = (
        Served(e["request_id"], e["arrived_ns"], tuple(e["departed_ns"]), tuple(e["chunk_tokens"]))
        for e in json.loads(document)
    )
    return sorted(entries, key=lambda served: served.arrived_ns)


@contextmanager
def referee(core: int, *, socket_path: str | None = None, gap_ms: float = GAP_MS) -> Generator[Referee]:
    """A fresh one on its own core. Raises ``OSError``."""
    where = ("--uds", socket_path) if socket_path else ("--host", "127.0.0.1")
    argv = (sys.executable, "-m", "worker.replay.null_engine", "--cores", str(core), *where)
    pace = ("--ttft-ms", str(TTFT_MS), "--gap-ms", str(gap_ms))
    with subprocess.Popen((*argv, *pace), cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            said = process.stdout.readline().split() if process.stdout else []
            if not said:
                raise OSError("the null engine did not start")
            yield Referee(process.pid, 0 if socket_path else int(said[-1]), socket_path)
        finally:
            process.kill()
