"""Follow an experiment in a terminal or a log, through the HTTP API only.

A terminal gets a progress bar; anything else gets a plain line now and then, without control characters.
"""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from app.client import Service, page_url
from app.domain.lifecycle import EXPERIMENT_MOVES, ExperimentState, is_terminal
from app.domain.report import Report
from app.tables import print_verdicts

POLL_S = 2.0
PLAIN_PERIOD_S = 30.0
MINUTES_FROM_S = 90

Experiment = dict[str, Any]
"""The API's ``ExperimentRead``."""


def watch(
    service: Service, experiment_id: str, console: Console, *, sleep: Callable[[float], None] = time.sleep
) -> Report | None:
    """Follow until the experiment ends, printing an interim table after each block; returns its report.

    Ctrl-C stops only the watching and returns ``None``. Raises ``Refused``.
    """
    try:
        experiment = _follow(service, experiment_id, console, sleep)
    except KeyboardInterrupt:
        again = f"verdraft watch {experiment_id[:12]}"
        console.print(f"\nStopped watching. The experiment goes on; watch it again with: {again}", soft_wrap=True)
        return None
    console.print(f"{experiment['name']} is {experiment['state']}: {_blocks(experiment)} blocks complete")
    report = service.report(experiment_id)
    print_verdicts(console, report)
    console.print(f"Page: {page_url(service, experiment)}", soft_wrap=True)
    return report


def _follow(service: Service, experiment_id: str, console: Console, sleep: Callable[[float], None]) -> Experiment:
    blocks_told: int | None = None
    failures_told = 0
    with _screen(console) as screen:
        while True:
            experiment = service.experiment(experiment_id)
            screen.show(experiment)
            for failure in experiment["failures"][failures_told:]:
                console.print(f"! {failure['where']}: {failure['failure_class']}: {failure['message']}", markup=False)
            failures_told = len(experiment["failures"])
            if is_terminal(EXPERIMENT_MOVES, ExperimentState(experiment["state"])):
                return experiment
            complete = experiment["blocks_complete"]
            if blocks_told is not None and complete > blocks_told:
                print_verdicts(console, service.report(experiment_id))
            blocks_told = complete
            sleep(POLL_S)


class _Screen(Protocol):
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def show(self, experiment: Experiment) -> None: ...


def _screen(console: Console) -> _Screen:
    return _Bar(console) if console.is_terminal else _Lines(console)


class _Bar:
    """Conditions done, what runs now, and the time left, on one live line."""

    def __init__(self, console: Console) -> None:
        columns = (TextColumn("conditions"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
        self._progress = Progress(*columns, console=console)
        self._task = self._progress.add_task("", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, experiment: Experiment) -> None:
        self._progress.update(
            self._task,
            completed=experiment["runs_done"],
            total=experiment["runs_planned"],
            description=f"{_now(experiment)} · {_left(experiment)}",
        )


class _Lines:
    """A line each half minute, and at once when the state or the number of blocks changes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._told_at_s = float("-inf")
        self._told: object = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def show(self, experiment: Experiment) -> None:
        news = (experiment["state"], experiment["blocks_complete"])
        now_s = time.monotonic()
        if news == self._told and now_s - self._told_at_s < PLAIN_PERIOD_S:
            return
        self._told, self._told_at_s = news, now_s
        done = f"conditions {experiment['runs_done']}/{experiment['runs_planned']}"
        line = f"{done} · {_now(experiment)} · {_left(experiment)}"
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def _now(experiment: Experiment) -> str:
    current = experiment["current"]
    if current is None:
        waits = experiment.get("waits_because")
        return f"{experiment['state'].lower()}, block {_blocks(experiment)} done" + (f"; {waits}" if waits else "")
    where = "/".join(part for part in (current["arm"], current["workload"], current["load"]) if part)
    state = str(current["session_state"]).lower()
    return f"block {current['block'] + 1}/{experiment['blocks_planned']} {where} {state}"


def _blocks(experiment: Experiment) -> str:
    return f"{experiment['blocks_complete']}/{experiment['blocks_planned']}"


def _left(experiment: Experiment) -> str:
    seconds = experiment["seconds_left"]
    if seconds is None:
        return "time left not known yet"
    return f"about {seconds / 60:.0f} min left" if seconds >= MINUTES_FROM_S else f"about {seconds:.0f} s left"
