"""An experiment on a runtime that hides its defect: the product finds it by itself, and no speed is claimed."""

import shutil

import pytest

from app.domain.greedy_classes import MismatchClass
from app.domain.report import build_report
from app.domain.vocabulary import VerdictWord
from tests.fakes.defective import make_defective_runtime
from tests.fakes.defects import Defect, Kind
from tests.worker.conduct import Place, PlaceMaker


def with_defect(here: Place, defect: Defect) -> Place:
    """The same host, whose runtime now has a defect where it speculates."""
    engine = here.runtime_root.parent / "engine"
    shutil.move(here.runtime_root / here.runtime, engine)
    make_defective_runtime(here.runtime_root / here.runtime, engine, defect)
    return here


@pytest.mark.parametrize("defect", [Defect(Kind.TOKEN_SWAPPED, position=1, chance=0.5), Defect(Kind.FINISH_CHANGED)])
async def test_outputs_that_are_not_the_targets_make_the_arm_invalid(place: PlaceMaker, defect: Defect) -> None:
    here = with_defect(place(), defect)
    manifest = await here.submit(blocks=1)
    await here.conduct()

    assert await here.state(manifest) == "FINISHED"
    report = build_report(await here.evidence(manifest))
    (correctness,) = report.correctness
    assert correctness.classes.keys() == {MismatchClass.SPEC_DEFECT}
    assert {verdict.word for verdict in report.verdicts} == {VerdictWord.INVALID}
    assert all("are defects" in " ".join(verdict.reasons) for verdict in report.verdicts)


async def test_a_runtime_that_hides_nothing_is_not_accused(place: PlaceMaker) -> None:
    here = with_defect(place(), Defect())
    manifest = await here.submit(blocks=1)
    await here.conduct()

    (correctness,) = build_report(await here.evidence(manifest)).correctness
    assert (correctness.mismatched, correctness.broken) == (0, ())
    assert correctness.compared > 0
