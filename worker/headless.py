"""``verdraft run``: one experiment from start to verified bundle with nobody watching, as a batch job needs it.

It is `up`, `submit`, `watch`, `bundle`, `verify` and `down` in one process tree. When its time is over it hands over in
order, as a worker does that is asked to leave, and a later call goes on from the state that it left.
"""

import signal
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

from rich.console import Console

from app.backup import backup, restore
from app.bundle.archive import root_of
from app.bundle.verifying import verify
from app.client import Service
from app.domain.errors import DomainError
from app.domain.lifecycle import EXPERIMENT_MOVES, ExperimentState, is_terminal
from app.domain.manifest import Manifest
from app.domain.report import Report
from app.domain.trace_scan import split_lines, summarise
from app.manifests.reading import read_manifest
from app.settings import Settings
from app.terminal import EXIT_REFUSED
from app.watch import watch
from app.workloads.storing import store_file
from worker import accelerators, supervise
from worker.identity import hardware, software
from worker.pins import resolve_pins

EXIT_UNFINISHED: Final = 75
"""As sysexits' EX_TEMPFAIL: nothing is wrong, call again to go on."""
RUN_PATIENCE_S: Final = 120.0
"""How long after its time limit a replay under way may still take; half of one counts for nothing."""
_POLL_S: Final = 0.2
_CHUNK_BYTES: Final = 1 << 20
_ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
"""What batch systems send before they kill."""


class RunRefused(DomainError):
    """The experiment cannot be run here, or not now."""

    title = "The experiment cannot be run"


@dataclass(frozen=True, slots=True)
class Order:
    """What was asked for. ``traces`` are files, or directories whose ``*.jsonl`` are looked through."""

    manifest: Path
    bundle: Path
    traces: tuple[Path, ...] = ()
    time_limit_s: float | None = None
    state: Path | None = None
    resume: Path | None = None
    with_raw: bool = False


class TimeIsUp(Exception):
    """It is time to leave; ``at_once`` where a signal said so, whose sender will not wait."""

    def __init__(self, reason: str, *, at_once: bool) -> None:
        super().__init__(reason)
        self.at_once = at_once


@dataclass(slots=True)
class Clock:
    """When to leave: after ``time_limit_s`` from the start of the command, or when a signal asks for it."""

    time_limit_s: float | None
    started_s: float = field(default_factory=time.monotonic)
    asked_by: str = ""

    def listen(self) -> None:
        """Take the signals of batch systems, and Ctrl-C, as a request to leave in order."""
        for number in _ENDING:
            signal.signal(number, self._ask)

    def sleep(self, seconds: float) -> None:
        """Raises ``TimeIsUp`` as soon as it is."""
        until = time.monotonic() + seconds
        while True:
            self.check()
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, _POLL_S))

    def check(self) -> None:
        """Raises ``TimeIsUp`` if it is."""
        if self.asked_by:
            raise TimeIsUp(f"{self.asked_by} asked to leave", at_once=True)
        if self.time_limit_s is not None and time.monotonic() - self.started_s >= self.time_limit_s:
            raise TimeIsUp(f"the time limit of {self.time_limit_s:g} s is reached", at_once=False)

    def _ask(self, number: int, _: FrameType | None) -> None:
        self.asked_by = signal.Signals(number).name


def run(settings: Settings, order: Order, clock: Clock, console: Console) -> int:
    """Returns 0 with a verified bundle of a finished experiment, 75 with what is complete so far, 1 where it failed.

    Raises ``DomainError`` or ``Refused``.
    """
    manifest = read_manifest(order.manifest)
    settings = _own_port(settings)
    _refuse_company(settings)
    traces = _find_traces(manifest, order)
    if order.resume is not None:
        _require_pinned_host(manifest)
    # A pin that this host cannot honour would fail a block for good; here it costs nothing.
    resolve_pins(manifest, settings)
    if order.resume is not None:
        restored = restore(settings, order.resume)
        _say(console, f"state of {restored.made_at:%Y-%m-%d %H:%M:%S} UTC restored from {order.resume}")
    _say(console, _lease_words(settings))
    try:
        settings = supervise.up(settings, lambda words: _say(console, words))
        for path in traces.values():
            store_file(path, settings)
        with Service(supervise.url(settings)) as service:
            return _Story(settings, order, clock, console, service).tell(manifest)
    finally:
        supervise.down(settings, lambda words: _say(console, words))


@dataclass(frozen=True, slots=True)
class _Story:
    settings: Settings
    order: Order
    clock: Clock
    console: Console
    service: Service

    def tell(self, manifest: Manifest) -> int:
        if self.order.resume is not None:
            self.service.experiment(manifest.digest)  # a state of another experiment is no place to begin one
        experiment = self.service.submit(manifest.canonical())
        digest = experiment["id"]
        self._say(f"experiment {digest[:12]} ({experiment['name']}), {experiment['state']}")
        report = self._follow(digest)
        problems = self._bundle(digest)
        if self.order.state is not None:
            _replace_state(self.settings, self.order.state)
            self._say(f"state: {self.order.state}, {self.order.state.stat().st_size} bytes")
        if problems:
            return EXIT_REFUSED
        if report is None:
            return self._unfinished(self.service.experiment(digest))
        return 0 if report.blocks_complete else EXIT_REFUSED

    def _follow(self, digest: str) -> Report | None:
        """The final report; ``None`` where it was time to leave before, and then no engine runs any more."""
        try:
            return watch(self.service, digest, self.console, sleep=self.clock.sleep)
        except TimeIsUp as reason:
            self._say(f"{reason}; leaving in order")
            if not reason.at_once:
                self._let_replay_end(digest)
        supervise.stop_worker(self.settings, self._say)
        state = ExperimentState(self.service.experiment(digest)["state"])
        return self.service.report(digest) if is_terminal(EXPERIMENT_MOVES, state) else None

    def _let_replay_end(self, digest: str) -> None:
        now = self.service.experiment(digest)["current"]
        deadline = time.monotonic() + RUN_PATIENCE_S
        while now is not None and now["load"] is not None and time.monotonic() < deadline and not self.clock.asked_by:
            time.sleep(_POLL_S)
            before, now = now, self.service.experiment(digest)["current"]
            if now != before:
                return

    def _bundle(self, digest: str) -> tuple[str, ...]:
        """Write and verify it; what is wrong with it is printed."""
        output = self.order.bundle
        output.parent.mkdir(parents=True, exist_ok=True)
        size = self.service.bundle(digest, output, with_raw=self.order.with_raw)
        found = verify(output)
        for problem in found.problems:
            self._say(f"! {problem}")
        outcome = "NOT verified" if found.problems else f"verified: {found.observations} observations"
        self._say(f"bundle: {output}, {size} bytes, root {root_of(output)}, {outcome} of {found.runs} runs")
        return found.problems

    def _unfinished(self, experiment: dict[str, Any]) -> int:
        done = f"{experiment['blocks_complete']} of {experiment['blocks_planned']} blocks are complete"
        on = f" --resume {self.order.state}" if self.order.state else ", in the same VERDRAFT_HOME"
        self._say(f"unfinished: {done}; go on with the same command{on}")
        return EXIT_UNFINISHED

    def _say(self, words: str) -> None:
        _say(self.console, words)


def _say(console: Console, words: str) -> None:
    console.print(words, markup=False, highlight=False, soft_wrap=True)


def _own_port(settings: Settings) -> Settings:
    """Several jobs may share a host: a port that nobody chose is any free one. Only this job asks there."""
    settings = settings.model_copy(update={"access": "open", "host": "127.0.0.1"})
    if "port" in settings.model_fields_set:
        return settings
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return settings.model_copy(update={"port": probe.getsockname()[1]})


def _refuse_company(settings: Settings) -> None:
    """Where a service runs already, leaving in order would stop other people's experiments."""
    running = [one.name for one in supervise.status(settings) if one.running and one.name in {"web", "worker"}]
    if running:
        message = f"a service runs in {settings.home} already ({', '.join(running)})"
        raise RunRefused.of("home", message, "use `submit` and `watch`, or another VERDRAFT_HOME, or `verdraft down`")


def _find_traces(manifest: Manifest, order: Order) -> dict[str, Path]:
    """Digest → file of each workload's trace; with a state to resume from they are known already."""
    if order.resume is not None and not order.traces:
        return {}
    wanted = {workload.trace: workload.name for workload in manifest.workloads}
    places = order.traces or (order.manifest.parent,)
    found = {digest: path for path in _candidates(places) if (digest := _digest_of(path)) in wanted}
    for digest, name in wanted.items():
        if digest not in found:
            looked = ", ".join(map(str, places))
            message = f"the trace of workload {name} ({digest[:12]}) is not in {looked}"
            raise RunRefused.of("trace", message, "name its file with --trace")
    return found


def _candidates(places: Iterable[Path]) -> Iterable[Path]:
    for place in places:
        yield from sorted(place.glob("*.jsonl")) if place.is_dir() else (place,)


def _digest_of(path: Path) -> str | None:
    """The trace's digest; ``None`` where the file is no trace."""
    try:
        with path.open("rb") as file:
            return summarise(split_lines(iter(lambda: file.read(_CHUNK_BYTES), b""))).digest
    except DomainError:
        return None


def _require_pinned_host(manifest: Manifest) -> None:
    """Before anything is restored: blocks of one experiment are pooled, so they come from hosts that are alike."""
    for name, pinned, here in (
        ("hardware", manifest.hardware, hardware()),
        ("software", manifest.software, software()),
    ):
        stated, found = pinned.model_dump(), here.model_dump()
        for key in stated:
            if stated[key] != found[key]:
                message = f"earlier blocks were measured with {stated[key]!r}, this host has {found[key]!r}"
                raise RunRefused.of(
                    f"{name}.{key}", message, "go on where the host is the pinned one, or begin a new experiment here"
                )


def _lease_words(settings: Settings) -> str:
    """Which machine this is; each session's evidence names its accelerator too."""
    places, found = accelerators.offered(settings), software()
    where = f"{socket.gethostname()}: {places.kind} ({', '.join(places.names)})"
    return f"machine {where}; driver {found.driver}, cuda {found.cuda}, {found.os}, kernel {found.kernel}"


def _replace_state(settings: Settings, state: Path) -> None:
    """Write the state beside its place and move it there, so that a killed call leaves the earlier one."""
    state.parent.mkdir(parents=True, exist_ok=True)
    fresh = state.with_name(f"{state.name}.new")
    fresh.unlink(missing_ok=True)
    backup(settings, fresh)
    fresh.replace(state)
