"""What the page says of sampled answers: the label, the word, its figures and every test."""

import re

from app.domain.losslessness import Label, Losslessness
from app.domain.report import Report
from app.domain.sampling_equality import HOTTER, judge_samples
from app.pages.views import ENVIRONMENT
from tests.domain.sampling_worlds import World
from tests.factories_report import sample_report

PART = '{% import "_macros.html" as ui with context %}{% include "_sampled.html" %}'
WORLD = World()


def shown(report: Report) -> str:
    return re.sub(r"\s+", " ", ENVIRONMENT.from_string(PART).render(report=report))


def _report() -> Report:
    report = sample_report()
    names = [arm.name for arm in report.manifest.candidates]
    arms = {names[0]: WORLD.samples(1, each=24), names[1]: WORLD.samples(2, each=24, temperature=1.5)}
    hotter = WORLD.samples(4, each=24, temperature=HOTTER)
    labels = tuple(Losslessness(arm=name, label=Label.LOSSLESS, reasons=("standard",)) for name in names)
    sampling = judge_samples(arms, WORLD.samples(3, each=24), hotter, WORLD.stated(8))
    return report.model_copy(update={"losslessness": labels, "sampling": sampling})


def test_word_and_figures() -> None:
    text = shown(_report())
    assert "✓ as the target's" in text.replace("&#39;", "'")
    assert "✕ not the target's" in text.replace("&#39;", "'")
    assert "lossless by its configuration" in text
    assert "likelihood, exact" in text
    assert "are not distributed as target-only" in text


def test_a_greedy_experiment_says_so() -> None:
    text = shown(_report().model_copy(update={"sampling": ()}))
    assert "Nothing was sampled" in text


def test_a_report_without_labels_shows_nothing() -> None:
    assert shown(sample_report().model_copy(update={"losslessness": ()})).strip() == ""
