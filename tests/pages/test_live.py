"""The schedule as a grid: what was planned in its place, servers that answer again after it."""

from app.domain.lifecycle import SessionState
from app.pages.live import schedule_grid
from app.runs.schemas import SessionRead
from tests.factories import make_manifest


def session(arm: str, *, diagnosing: bool = False) -> SessionRead:
    state = SessionState.VERIFYING if diagnosing else SessionState.SUCCEEDED
    return SessionRead.model_construct(block=0, arm=arm, attempt=1, state=state, diagnosing=diagnosing)


def test_a_server_that_answers_again_takes_no_planned_ones_place() -> None:
    manifest = make_manifest(blocks=1)
    measured = [session(arm.name) for arm in manifest.arms]
    (lane,) = schedule_grid(manifest, [*measured, session("target-only", diagnosing=True)])
    assert [cell.label for cell in lane.cells] == ["succeeded", "succeeded", "asked again, verifying"]
    assert lane.cells[-1].arm == "target-only"
