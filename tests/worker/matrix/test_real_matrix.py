"""Two rows of the matrix on the real engine: one method that it serves, and one that it refuses."""

from pathlib import Path

import pytest

from app.settings import Settings
from worker.matrix.conduct import open_matrix, run_matrix
from worker.matrix.judging import Agreement, Said
from worker.matrix.outcome import Ending

pytestmark = pytest.mark.real_engine

SERVED, REFUSED = "ngram", "mtp, target without a module"


async def test_preflight_says_what_the_engine_does(tmp_path: Path) -> None:
    started: list[str] = []
    settings = Settings().model_copy(update={"home": tmp_path})
    matrix = open_matrix(settings, "cpu", fresh=False, say=started.append)
    served, refused = await run_matrix(matrix, [SERVED, REFUSED])

    assert served.preflight.said is Said.PASS
    assert served.engine is not None
    assert served.engine.ending is Ending.SERVED
    assert served.engine.drafted
    assert served.unlike == {}
    assert refused.preflight.said is Said.FAIL
    assert refused.engine is not None
    assert refused.engine.ending is Ending.REFUSED
    assert "mtp" in refused.engine.words
    assert [served.agreement, refused.agreement] == [Agreement.AGREES] * 2

    before = len(started)
    again = await run_matrix(matrix, [SERVED, REFUSED])
    assert again == [served, refused]
    assert len(started) == before, "what the engine has answered is not asked again"
