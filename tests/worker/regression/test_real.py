"""A handful of cases on the real engine of this processor; the whole matrix is the command's own job."""

from pathlib import Path

import pytest

from app.settings import Settings
from worker.regression.conduct import run_checks
from worker.regression.planning import Asked, make_plan
from worker.regression.verdicts import RegressionMatrix, Status

pytestmark = pytest.mark.real_engine

CASES = ("greedy-equality", "min-p", "eos-in-draft", "stop-string-tokens", "max-tokens-exact", "streamed", "drafts")


async def test_lookup_decoding_changes_nothing_but_speed(tmp_path: Path) -> None:
    settings = Settings().model_copy(update={"home": tmp_path})
    kept: list[RegressionMatrix] = []
    plan = await make_plan(settings, Asked("cpu", ("ngram",), CASES), [].append, kept.append)
    found = await run_checks(plan)
    assert [row.method for row in found.rows] == ["target-only", "ngram"]
    assert found.fails == ()
    ngram = found.rows[1]
    assert {cell.status for cell in ngram.cells} == {Status.PASSED}
    assert 0 < (ngram.accepted or 0) < (ngram.drafted or 0)
    assert kept[-1] == found
