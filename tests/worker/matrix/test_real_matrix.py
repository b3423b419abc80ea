"""A row of the matrix on the real engine: preflight refuses what it refuses."""

from pathlib import Path

import pytest

from app.settings import Settings
from worker.matrix.conduct import open_matrix, run_matrix
from worker.matrix.judging import Agreement, Said
from worker.matrix.outcome import Ending

pytestmark = pytest.mark.real_engine

REFUSED = "mtp, target without a module"
"""A served row needs a baseline beside it; ``verdraft runtime matrix`` asks for all of them (docs/methods.md)."""


async def test_preflight_says_what_the_engine_does(tmp_path: Path) -> None:
    started: list[str] = []
    settings = Settings().model_copy(update={"home": tmp_path})
    matrix = open_matrix(settings, "cpu", fresh=False, say=started.append)
    (refused,) = await run_matrix(matrix, [REFUSED])

    assert refused.preflight.said is Said.FAIL
    assert refused.engine is not None
    assert refused.engine.ending is Ending.REFUSED
    assert "mtp" in refused.engine.words
    assert refused.agreement is Agreement.AGREES

    before = len(started)
    assert await run_matrix(matrix, [REFUSED]) == [refused]
    assert len(started) == before, "what the engine has answered is not asked again"
