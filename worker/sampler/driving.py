"""Asks a runtime's own Python to drive its rejection sampler, and judges what it counted."""

import json
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from app.domain.sampler_judgment import Assertion, AssertionOutcome, CaseCounts, judge_case
from app.domain.sampler_truth import SamplerCase
from worker.runtimes.asked import Unaskable, run_alone
from worker.runtimes.registry import RuntimeIdentity
from worker.sampler.cases import SEED, cases

SCRIPT = Path(__file__).with_name("drive_engine.py")
TIMEOUT_S = 1800.0


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DrivenCase(_Frozen):
    """One case as it came back."""

    name: str
    seconds: float
    counts: CaseCounts | None
    error: str | None


class Driven(_Frozen):
    """What ``drive_engine.py`` prints."""

    protocol: int
    version: str
    device: str
    kernels: str
    sampler: str
    parameters_lost: str
    as_installed: tuple[DrivenCase, ...]
    repaired: tuple[DrivenCase, ...] = ()
    not_driven: dict[str, str]


class SamplerReport(_Frozen):
    """What one runtime's sampler does; ``repaired`` is told apart and decides nothing."""

    runtime: str
    samples: int
    version: str
    device: str
    kernels: str
    sampler: str
    parameters_lost: str
    """Why sampling parameters do not reach the drafted places; empty where they do."""
    assertions: tuple[Assertion, ...]
    errors: dict[str, str]
    """Case → why this engine cannot do it."""
    repaired: tuple[Assertion, ...]
    """The same with the parameters put where they belong: whether anything else is wrong."""
    not_driven: dict[str, str]

    @property
    def passes(self) -> bool:
        """Whether something was checked, and nothing failed."""
        outcomes = {assertion.outcome for assertion in self.assertions}
        return AssertionOutcome.FAIL not in outcomes and AssertionOutcome.PASS in outcomes and not self.errors


def drive(runtime: RuntimeIdentity, samples: int) -> SamplerReport:
    """Drive the sampler of ``runtime`` with every case. Raises ``Unaskable``."""
    asked = cases()
    question = {"seed": SEED, "samples": samples, "cases": [case.model_dump(mode="json") for case in asked]}
    text = run_alone(runtime, SCRIPT, json.dumps(question), TIMEOUT_S)
    try:
        driven = Driven.model_validate_json(text)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise Unaskable(f"the answer was not understood: {wrong['loc']} {wrong['msg']}") from error
    return _report(runtime.ref, samples, asked, driven)


def _report(ref: str, samples: int, asked: tuple[SamplerCase, ...], driven: Driven) -> SamplerReport:
    return SamplerReport(
        runtime=ref,
        samples=samples,
        **driven.model_dump(include={"version", "device", "kernels", "sampler", "parameters_lost", "not_driven"}),
        assertions=tuple(_judged(asked, driven.as_installed)),
        errors={case.name: case.error for case in driven.as_installed if case.error is not None},
        repaired=tuple(_judged(asked, driven.repaired)),
    )


def _judged(asked: tuple[SamplerCase, ...], driven: tuple[DrivenCase, ...]) -> Iterator[Assertion]:
    by_name = {case.name: case for case in asked}
    for one in driven:
        if one.counts is not None:
            yield from judge_case(by_name[one.name], one.counts)
