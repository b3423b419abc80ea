"""The real engine's rejection sampler, driven by its own Python; no server is started."""

import pytest

from app.domain.sampler_judgment import AssertionOutcome
from app.settings import Settings
from worker.runtimes.registry import inspect_runtime
from worker.sampler.cases import cases
from worker.sampler.driving import drive

pytestmark = pytest.mark.real_engine
ROWS = 4_000


def test_the_cpu_sampler_is_driven_and_its_fault_is_found_in_one_function() -> None:
    """On a CPU, vLLM 0.32 verifies drafts at temperatures that nobody asked for; that put right, it is lossless."""
    report = drive(inspect_runtime(Settings().runtime_root / "cpu"), ROWS)
    assert report.version.startswith("0.32")
    assert report.parameters_lost.startswith("temperature, top_p, top_k")
    assert not report.passes
    assert AssertionOutcome.FAIL in {one.outcome for one in report.assertions}
    repaired = [one.outcome for one in report.repaired]
    assert {one.case for one in report.repaired} == {case.name for case in cases()}
    assert AssertionOutcome.FAIL not in repaired
    assert repaired.count(AssertionOutcome.PASS) >= len(cases())
