"""The null engine as referee: what really happened to each request, by the server's clock."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import httpx
from pydantic import TypeAdapter

from worker.calibration.referee import Seen

ROOT = Path(__file__).resolve().parents[2]
TTFT_MS = 50
GAP_MS = 5


class Served(Seen):
    """One request as the server saw it; nanoseconds on the monotonic clock."""

    @property
    def ttft_ns(self) -> int:
        return self.departed_ns[0] - self.arrived_ns

    @property
    def gaps_ns(self) -> tuple[int, ...]:
        return tuple(later - earlier for earlier, later in pairwise(self.departed_ns))


_LOG = TypeAdapter(list[Served])


@dataclass(frozen=True, slots=True)
class Referee:
    """A running null engine: on ``port`` of loopback, or at ``socket_path``."""

    pid: int
    port: int
    socket_path: str | None

    def log(self) -> list[Served]:
        """Requests in the order of their arrival."""
        return sorted(_LOG.validate_json(self._ask("GET")), key=lambda served: served.arrived_ns)

    def forget(self) -> None:
        """Begin a new log."""
        self._ask("DELETE")

    def _ask(self, method: str) -> bytes:
        transport = httpx.HTTPTransport(uds=self.socket_path) if self.socket_path else None
        with httpx.Client(transport=transport, base_url=f"http://127.0.0.1:{self.port}", timeout=120) as client:
            return client.request(method, "/referee").content


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
