"""One vLLM server: started, ready, measured by others, stopped, and certainly gone.

``async with VllmServer(…) as server`` yields only after an answered canary, and leaves only when
no process of the tree is left.
"""

import asyncio
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from app.domain.evidence import Failure
from app.domain.exposition import canary_facts
from app.domain.launch import PINNED_ENVIRONMENT, LaunchSpec
from app.domain.startup import CanaryFacts, ConfigSource, StartupWarning
from app.domain.vocabulary import FailureClass
from worker.engine import containment, log_config, log_lines, log_warnings, model_facts
from worker.engine.cgroup import Cgroup, make_cgroup
from worker.engine.log_file import read_log
from worker.engine.readiness import CanaryFailed, is_ready, send_canary
from worker.engine.scrape import QUIET_PERIOD_S, ScrapeFailed, scrape, server_info

POLL_S = 0.1
STARTUP_STALL_S = 60.0
STARTUP_EXTENSION_MAX = 4
CANARY_TIMEOUT_S = 120.0
TERM_GRACE_S = 30.0
KILL_GRACE_S = 60.0
"""Gigabytes are freed before a killed process is gone, which takes long where the host is busy."""
STRAGGLER_GRACE_S = 2.0
LOG_BYTES_MAX = 256 * 1024**2


class StartupFailed(Exception):
    """The server did not become ready. Its log is kept at ``log_path``; ``was_healthy``: it died of the canary."""

    def __init__(self, failure: Failure, log_path: Path, *, was_healthy: bool = False) -> None:
        super().__init__(f"{failure.failure_class}: {failure.message}")
        self.failure = failure
        self.log_path = log_path
        self.was_healthy = was_healthy


class EngineLeftBehind(Exception):
    """Processes of the engine survived SIGKILL; the accelerator must not be used again."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """Resolved settings by name, and where they were read; no source where nothing was."""

    values: dict[str, str]
    source: ConfigSource | None


class VllmServer:
    """The server of ``spec``; ``tag`` marks its processes, ``log_path`` gets stdout and stderr.

    Start-up may take ``startup_timeout_s``, and longer only while the log grows. ``model_facts_path`` is
    where facts of model classes are kept from one server of this runtime to the next. ``inherited`` are
    descriptors of locks that shall stay locked as long as the server lives, whatever becomes of this process.
    """

    def __init__(
        self,
        spec: LaunchSpec,
        log_path: Path,
        *,
        tag: str,
        startup_timeout_s: float,
        canary_timeout_s: float = CANARY_TIMEOUT_S,
        term_grace_s: float = TERM_GRACE_S,
        model_facts_path: Path | None = None,
        inherited: tuple[int, ...] = (),
        log_bytes_max: int = LOG_BYTES_MAX,
    ) -> None:
        self.spec = spec
        self.log_path = log_path
        self.startup_ns = 0
        self._tag = tag
        self._startup_timeout_s = startup_timeout_s
        self._canary_timeout_s = canary_timeout_s
        self._term_grace_s = term_grace_s
        self._model_facts_path = model_facts_path
        self._inherited = inherited
        self._log_bytes_max = log_bytes_max
        self._cgroup: Cgroup | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def socket_path(self) -> str:
        """The unix socket on which the server listens."""
        return self.spec.socket_path

    def alive(self) -> bool:
        """Whether the API server still runs (it ends itself when its engine core dies)."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The API server's exit code; ``None`` while it runs."""
        return None if self._process is None else self._process.poll()

    async def configuration(self) -> Configuration:
        """What the running server resolved; from its log where it has no document of it. Raises ``ScrapeFailed``."""
        try:
            stated = await server_info(self.socket_path)
        except ScrapeFailed:
            if not self.alive():
                raise
            return self.logged_configuration()
        return Configuration(
            {**stated, log_config.RUNNER: log_config.model_runner(self._log())}, ConfigSource.SERVER_INFO
        )

    def logged_configuration(self) -> Configuration:
        """What the log says of it, with the pinned variables that it was started with; empty if it says nothing."""
        log = self._log()
        stated = log_config.logged_config(log)
        if not stated:
            return Configuration({}, None)
        pinned = {f"env.{name}": self.spec.env[name] for name in PINNED_ENVIRONMENT if name in self.spec.env}
        return Configuration({**stated, **pinned, log_config.RUNNER: log_config.model_runner(log)}, ConfigSource.LOG)

    async def canary_facts(self) -> CanaryFacts:
        """The speculative counters after the canary, once its last step is counted. Raises ``ScrapeFailed``."""
        await asyncio.sleep(QUIET_PERIOD_S)
        return canary_facts((await scrape(self.socket_path)).exposition)

    def memory(self) -> dict[str, str]:
        """The log's memory lines, name → value as printed."""
        return log_lines.memory(self._log())

    def warnings(self) -> tuple[StartupWarning, ...]:
        """The known warnings in the log so far."""
        return log_warnings.warnings(self._log())

    async def __aenter__(self) -> Self:
        started_ns = time.monotonic_ns()
        cache_root = self._make_cache_root()
        self._process = self._spawn()
        try:
            await self._become_ready(self._process)
            if self._model_facts_path:
                model_facts.keep(cache_root, self._model_facts_path)
        except BaseException:
            await self._stop_for_certain(self._process)
            raise
        self.startup_ns = time.monotonic_ns() - started_ns
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            await self._stop_for_certain(self._process)

    def _make_cache_root(self) -> Path:
        cache_root = Path(self.spec.env["VLLM_CACHE_ROOT"])
        cache_root.mkdir(parents=True, exist_ok=True)
        if self._model_facts_path:
            model_facts.lend(self._model_facts_path, cache_root)
        return cache_root

    def _spawn(self) -> "subprocess.Popen[bytes]":
        containment.become_subreaper()
        self._cgroup = make_cgroup(f"{containment.own_identity()}-{self._tag}")
        with self.log_path.open("wb") as log:
            return subprocess.Popen(
                self.spec.argv,
                env={**self.spec.env, **containment.tags(self._tag)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=self._inherited,
                preexec_fn=containment.child_setup(self.spec.cores, self._cgroup),  # noqa: PLW1509  (system calls only)
            )

    async def _become_ready(self, process: "subprocess.Popen[bytes]") -> None:
        progress = _Progress(self.log_path, self._startup_timeout_s)
        while not await is_ready(self.socket_path, self.spec.served_model_name):
            if process.poll() is not None:
                raise StartupFailed(log_lines.classify_failure(self._log(), process.returncode), self.log_path)
            if flood := self.flood():
                raise self._failed(FailureClass.ENGINE_DEAD, flood)
            if progress.is_overdue():
                raise self._failed(FailureClass.HANG, f"not ready after {progress.elapsed_s:.0f} s, its log is silent")
            await asyncio.sleep(POLL_S)
        try:
            await send_canary(self.socket_path, self.spec.served_model_name, self._canary_timeout_s)
        except httpx.TimeoutException:
            message = f"healthy, but the canary was not answered within {self._canary_timeout_s:g} s"
            raise self._failed(FailureClass.HANG, message, was_healthy=True) from None
        except CanaryFailed as error:
            await asyncio.sleep(POLL_S)  # for the engine to finish writing: its log names the cause better
            cause = log_lines.find_cause(self._log()) or str(error)
            message = f"the first request failed: {cause}"
            raise self._failed(FailureClass.ENGINE_DEAD, message, was_healthy=True) from error

    def _failed(self, failure_class: FailureClass, message: str, *, was_healthy: bool = False) -> StartupFailed:
        failure = Failure(failure_class=failure_class, message=message)
        return StartupFailed(failure, self.log_path, was_healthy=was_healthy)

    def flood(self) -> str | None:
        """What to say of a log that has grown beyond all use."""
        size = self.log_path.stat().st_size
        if size <= self._log_bytes_max:
            return None
        return f"it had written {size / 1024**2:.0f} MiB of log and was stopped"

    def _log(self) -> str:
        return read_log(self.log_path)

    async def _stop_for_certain(self, process: "subprocess.Popen[bytes]") -> None:
        """Stop, and finish stopping also when the caller is canceled meanwhile."""
        stopping = asyncio.ensure_future(self._stop(process))
        try:
            await asyncio.shield(stopping)
        except asyncio.CancelledError:
            await stopping
            raise

    async def _stop(self, process: "subprocess.Popen[bytes]") -> None:
        """SIGTERM to the group; SIGKILL to the group and to whatever else is the engine's; then verify."""
        containment.kill_group(process.pid, signal.SIGTERM)
        if not await self._is_gone(process, self._term_grace_s):
            containment.kill_group(process.pid, signal.SIGKILL)
            if self._cgroup is not None:
                self._cgroup.kill()
            containment.kill(self._members(process))
            if not await self._is_gone(process, KILL_GRACE_S):
                raise EngineLeftBehind(f"processes {sorted(self._members(process))} survived SIGKILL")
        if self._cgroup is not None:
            self._cgroup.remove()

    def _members(self, process: "subprocess.Popen[bytes]") -> frozenset[int]:
        found = containment.members(self._tag, process.pid)
        return found if self._cgroup is None else found | containment.alive(self._cgroup.members())

    async def _is_gone(self, process: "subprocess.Popen[bytes]", grace_s: float) -> bool:
        """Wait until no member is left, but no longer than a moment once the leader has ended."""
        seen: frozenset[int] = frozenset()
        deadline = time.monotonic() + grace_s
        while True:
            leader_ended = process.poll() is not None
            remaining = self._members(process)
            seen |= remaining
            containment.reap(seen - remaining - {process.pid})
            if leader_ended and not remaining:
                return True
            if leader_ended:
                deadline = min(deadline, time.monotonic() + STRAGGLER_GRACE_S)
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(POLL_S)


class _Progress:
    """A deadline that moves while a file grows, up to a multiple of itself."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        self._path = path
        self._stall_s = min(STARTUP_STALL_S, timeout_s)
        self._started = time.monotonic()
        self._deadline = self._started + timeout_s
        self._last = self._started + timeout_s * STARTUP_EXTENSION_MAX
        self._size = 0

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._started

    def is_overdue(self) -> bool:
        now, size = time.monotonic(), self._path.stat().st_size
        if size > self._size:
            self._size = size
            self._deadline = max(self._deadline, now + self._stall_s)
        return now > min(self._deadline, self._last)
