"""Every way to draft on the real engine: what its responses say of themselves is what it counts, to the last token."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.settings import Settings
from worker.matrix.conduct import Matrix, open_matrix
from worker.matrix.reconcile import PROMPTS, RECONCILED, reconcile_methods
from worker.runtimes.install import installed

pytestmark = pytest.mark.real_engine

SUFFIX_RUNTIME = "cpu-suffix"
ACCEPTING = {"ngram", "suffix", "draft_model"}
"""Heads are untrained and may accept nothing; these draft what the target often says itself."""
PLAIN = ["prompt_tokens", "generation_tokens"]


def opened(case: str, home: Path) -> Matrix:
    """The runtime that serves the case; its locks are under ``home``, since counts do not mind a service that runs."""
    settings = Settings()
    name = SUFFIX_RUNTIME if case == "suffix" else "cpu"
    if name == SUFFIX_RUNTIME and not installed(name, settings.runtime_root):
        pytest.skip(f"needs `verdraft runtime install {SUFFIX_RUNTIME}`, which builds C++")
    matrix = open_matrix(settings, name, fresh=False, say=lambda _: None)
    return replace(matrix, settings=matrix.settings.model_copy(update={"home": home}))


IN_EVERY_RUN = {"ngram", "draft_model"}
"""The others' starts are minutes, and ``verdraft runtime reconcile`` holds them to the same."""


@pytest.mark.parametrize(
    "case", [case if case in IN_EVERY_RUN else pytest.param(case, marks=pytest.mark.long) for case in RECONCILED]
)
async def test_requests_and_counters_agree_exactly(case: str, tmp_path: Path) -> None:
    (row,) = await reconcile_methods(opened(case, tmp_path), [case])
    assert row.requests == sum(PROMPTS)
    assert {line.quantity: line.residual for line in row.lines if line.residual} == {}
    assert row.broken == ()
    sums = {line.quantity: line.per_request_sum for line in row.lines}
    if case == "target_only":
        assert list(sums) == PLAIN
        assert row.beyond_the_end == 0
        return
    assert min(sums[quantity] for quantity in (*PLAIN, "drafts", "draft_tokens")) > 0
    assert sum(quantity.startswith("accepted_tokens_at_position_") for quantity in sums) > 0
    if case in ACCEPTING:
        assert sums["accepted_tokens"] > 0
