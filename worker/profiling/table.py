"""Profiles for people: every scope with its count and times, what a step comes to, and what could not be seen."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table

from app.domain.step_profile import StepTimes
from worker.profiling.outcome import ArmProfile, EngineStep

SCOPE_COLUMNS = ("arm", "steps", "scope", "n", "mean ms", "median ms", "p95 ms", "total ms")
STEP_COLUMNS = ("arm", "steps", "requests", "tokens", "target ms", "draft ms", "rest ms", "whole ms")
ENGINE_COLUMNS = ("arm", "before ms", "n", "profiled ms", "n", "after ms", "n", "the profiler adds", "drift")
WIDTH_MIN = 110
"""A name is never cut by the width of a log."""
TIMES_FROM = 3
DASH = "-"


def show(console: Console, found: Sequence[ArmProfile]) -> None:
    """Print them; on a narrow console its lines wrap."""
    console.width = max(console.width, WIDTH_MIN)
    for table in (_scopes(found), _steps(found), _engine(found)):
        console.print(table)
    for told in found:
        for line in _lines(told):
            console.print(f"{told.arm}: {line}", soft_wrap=True, highlight=False)


def _scopes(found: Sequence[ArmProfile]) -> Table:
    table = _table("Scopes, with the profiler running", SCOPE_COLUMNS, numbers_from=TIMES_FROM)
    for told in found:
        for times in told.profile.steps:
            for one in times.scopes:
                shown = (_ms(ms) for ms in (one.mean_ms, one.median_ms, one.p95_ms, one.total_ms))
                table.add_row(told.arm, times.kind, one.scope, str(one.n), *shown)
        table.add_section()
    return table


def _steps(found: Sequence[ArmProfile]) -> Table:
    table = _table("A step that only decodes, with the profiler running (means)", STEP_COLUMNS)
    for told in found:
        times = told.profile.decoding
        table.add_row(told.arm, *(_cells(times) if times else (DASH,) * 7))
    return table


def _cells(times: StepTimes) -> tuple[str, ...]:
    sizes = (str(times.steps), _count(times.requests_per_step), _count(times.tokens_per_step))
    return *sizes, *map(_ms, (times.target_ms, times.draft_ms, times.rest_ms, times.whole_ms))


def _engine(found: Sequence[ArmProfile]) -> Table:
    table = _table(
        "A step by the engine's own inter-token latency, without, with and without the profiler", ENGINE_COLUMNS
    )
    for told in found:
        stretches = (*_step(told.before), *_step(told.profiled), *_step(told.after))
        table.add_row(told.arm, *stretches, _share(told.overhead), _share(told.drift))
    return table


def _step(step: EngineStep) -> tuple[str, str]:
    return _ms(step.mean_ms), str(step.n)


def _lines(told: ArmProfile) -> Iterator[str]:
    profile = told.profile
    yield f"{told.requests} requests of load {told.load}, {told.concurrency} in flight; times of the {profile.clock}"
    for what, why in profile.not_observable.items():
        yield f"{what} not observable: {why}"
    yield f"trace kept in {told.trace_path}"


def _table(title: str, columns: Sequence[str], numbers_from: int = 1) -> Table:
    table = Table(title=title, title_justify="left")
    for index, name in enumerate(columns):
        table.add_column(name, justify="right" if index >= numbers_from else "left")
    return table


def _ms(value: float | None) -> str:
    return DASH if value is None else f"{value:,.3f}"


def _share(value: float | None) -> str:
    return DASH if value is None else f"{value:+.1%}"


def _count(value: float | None) -> str:
    return DASH if value is None else f"{value:.2f}"
