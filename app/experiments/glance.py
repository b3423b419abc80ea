"""The verdicts of a report in short, so that a list shows and finds them without reading one report. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from app.domain.report import ANALYSIS_VERSION, Report
from app.experiments.schemas import ArmWord


class Glance(BaseModel):
    """What is kept beside a report. It holds for as many committed blocks, and for one version of the analysis."""

    model_config = ConfigDict(frozen=True)

    analysis: str
    blocks: int
    words: list[ArmWord]


def glance_of(report: Report, blocks: int) -> Glance:
    """The verdicts of a report that was made from so many committed blocks, in its own order."""
    counted = Counter((v.arm, v.word) for v in report.verdicts)
    words = [ArmWord(arm=arm, word=word, count=count) for (arm, word), count in counted.items()]
    return Glance(analysis=report.analysis_version, blocks=blocks, words=words)


def known_words(glance: Mapping[str, JsonValue], blocks: int) -> Sequence[ArmWord] | None:
    """The verdicts of an experiment with so many committed blocks; ``None`` where the glance is of other ones."""
    try:
        known = Glance.model_validate(glance)
    except ValidationError:  # of an older form
        return None
    return known.words if (known.analysis, known.blocks) == (ANALYSIS_VERSION, blocks) else None
