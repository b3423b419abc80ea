"""Run the cases on one subject after the other, the references first, and keep what each cell saw."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.domain.errors import DomainError
from app.domain.exposition import ACCEPTED_TOKENS, DRAFT_TOKENS
from app.domain.vocabulary import FailureClass
from app.settings import Settings
from worker.accelerators import whole_host
from worker.engine.scrape import ScrapeFailed, client, scrape
from worker.engine.server import VllmServer
from worker.regression.bench import Bench, Kept
from worker.regression.case import Case
from worker.regression.prompts import Prompts, read_prompts
from worker.regression.serving import Serving, Whereabouts
from worker.regression.subject import Subject
from worker.regression.trying import ERRED, GONE, run_case
from worker.regression.verdicts import Cell, RegressionMatrix, Row, Status, excerpt

HOME = "regression"

Say = Callable[[str], None]
Keep = Callable[[RegressionMatrix], None]
Variant = Callable[[Subject, str], Subject | None]
"""A subject with another launch for a case that names one; ``None`` where that launch is not of this subject."""


@dataclass(slots=True)
class Plan:
    """Everything that one call of the command does."""

    settings: Settings
    runtime: str
    runtime_digest: str
    subjects: Sequence[Subject]
    cases: Sequence[Case]
    variant: Variant
    say: Say
    keep: Keep
    """Told the rows so far after each, since a whole matrix takes long."""
    kept: dict[str, Kept] = field(default_factory=dict[str, Kept])
    """What each reference answered."""

    @property
    def where(self) -> Whereabouts:
        """Logs of this runtime's servers, until it is checked again."""
        logs = self.settings.home / HOME / self.runtime
        logs.mkdir(parents=True, exist_ok=True)
        facts = self.settings.home / "model-facts" / self.runtime_digest
        return Whereabouts(logs, facts, max(self.settings.startup_timeout_s, 900.0))


async def run_checks(plan: Plan) -> RegressionMatrix:
    """Every cell. Raises ``DomainError`` where an experiment holds the accelerator."""
    with whole_host(plan.settings) as ours:
        if not ours:
            raise DomainError.of("accelerator", "an experiment is running on this host", "wait for it, or cancel it")
        rows: list[Row] = []
        for subject in plan.subjects:
            rows.append(await _row(plan, subject))
            plan.keep(RegressionMatrix(runtime=plan.runtime, rows=tuple(rows)))
    return RegressionMatrix(runtime=plan.runtime, rows=tuple(rows))


async def _row(plan: Plan, subject: Subject) -> Row:
    if subject.unavailable:
        cells = [Cell(case=c.name, status=Status.NOT_APPLICABLE, words=subject.unavailable) for c in plan.cases]
        return Row(method=subject.name, k=subject.k, cells=tuple(cells), startup_words=subject.unavailable)
    own = [] if subject.is_reference else [case for case in plan.cases if case.launch is not None]
    common = [case for case in plan.cases if case not in own]
    async with Serving(subject, plan.where) as serving:
        cells = [await _cell(plan, serving, case) for case in common if not case.ends_server]
        counted = await _counted(serving.running)
        cells += [await _cell(plan, serving, case) for case in common if case.ends_server]
    cells += [await _own_cell(plan, subject, case) for case in own]
    failure = serving.failure
    return Row(
        method=subject.name,
        k=subject.k,
        cells=tuple(cells),
        drafted=counted[0],
        accepted=counted[1],
        startup_words="" if failure is None else excerpt(failure.message),
    )


async def _own_cell(plan: Plan, subject: Subject, case: Case) -> Cell:
    """A case with a launch of its own; on a reference it is a case like any other."""
    varied = plan.variant(subject, case.launch or "")
    if varied is None:
        return Cell(case=case.name, status=Status.NOT_APPLICABLE, words="a matter of draft models only")
    async with Serving(varied, plan.where) as serving:
        return await _cell(plan, serving, case)


async def _cell(plan: Plan, serving: Serving, case: Case) -> Cell:
    subject = serving.subject
    if serving.running is None and serving.failure is None:
        plan.say(f"starting {plan.runtime} for {subject.name}")
    server = await serving.server()
    if server is None:
        cell = _of_failure(serving, case)
    else:
        cell = await run_case(await _bench(plan, subject, server, case), case, serving.last_words)
        if cell.status is Status.FAILED and cell.words.startswith((GONE, ERRED)):
            await serving.stop()
    plan.say(f"{subject.name} · {case.name}: {cell.status}{f' ({cell.words})' if cell.words else ''}")
    failed = cell.status is Status.FAILED
    return cell.model_copy(update={"reproduce": f"{subject.reproduce} --case {case.name}"}) if failed else cell


def _of_failure(serving: Serving, case: Case) -> Cell:
    """A server that does not start refuses every case; one that says nothing at all has failed them."""
    failure = serving.failure
    status = Status.FAILED if failure and failure.failure_class is FailureClass.HANG else Status.REFUSED
    return Cell(case=case.name, status=status, words=f"at start-up: {excerpt(failure.message) if failure else ''}")


async def _bench(plan: Plan, subject: Subject, server: VllmServer, case: Case) -> Bench:
    config = _model_config(subject.target)
    return Bench(
        socket_path=server.socket_path,
        model=server.spec.served_model_name,
        case=case.name,
        k=subject.k,
        dtype=subject.dtype,
        vocabulary=int(config["vocab_size"]),
        eos_ids=_eos_ids(config),
        max_model_len=await _max_model_len(server),
        prompts=_prompts(subject.target),
        kept=plan.kept.setdefault(subject.reference or subject.name, Kept()),
        is_reference=subject.is_reference,
    )


_PROMPTS: dict[Path, Prompts] = {}
"""Making them takes seconds."""


def _prompts(target: Path) -> Prompts:
    if target not in _PROMPTS:
        _PROMPTS[target] = read_prompts(target)
    return _PROMPTS[target]


def _model_config(target: Path) -> dict[str, Any]:
    config = json.loads((target / "config.json").read_text())
    return {**config, **(config.get("text_config") or {})}


def _eos_ids(config: dict[str, Any]) -> frozenset[int]:
    told = config.get("eos_token_id")
    return frozenset(told if isinstance(told, list) else [] if told is None else [told])


async def _max_model_len(server: VllmServer) -> int:
    """As the server resolved it, which may be less than was asked for."""
    async with client(server.socket_path) as engine:
        return int((await engine.get("/v1/models")).json()["data"][0]["max_model_len"])


async def _counted(server: VllmServer | None) -> tuple[int | None, int | None]:
    """Drafted and accepted tokens over all cases, where the server is well and counts them."""
    if server is None:
        return None, None
    try:
        told = (await scrape(server.socket_path)).exposition
    except ScrapeFailed:
        return None, None
    if not (told.has(DRAFT_TOKENS) and told.has(ACCEPTED_TOKENS)):
        return None, None
    return int(told.value(DRAFT_TOKENS)), int(told.value(ACCEPTED_TOKENS))
