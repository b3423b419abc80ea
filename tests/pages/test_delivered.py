"""Accepted drafts, complete outputs and correct answers are three columns, and each says what it does not know."""

import re

from app.domain.report import Report, build_report
from app.pages.delivered import delivered
from app.pages.views import ENVIRONMENT
from tests.domain.evidence_factory import make_evidence
from tests.domain.test_correct_answers import evidence_with
from tests.factories_report import sample_report

PART = '{% import "_macros.html" as ui with context %}{% include "_delivered.html" %}'


def shown(report: Report) -> str:
    text = ENVIRONMENT.from_string(PART).render(report=report, delivered=delivered(report))
    return re.sub(r"\s+", " ", text)


def test_the_three_are_apart() -> None:
    report = build_report(evidence_with({"target-only": 0.9, "ngram": 0.6}, prompts=40))
    (group,) = delivered(report)
    target, arm = group.rows
    assert (target.drafted, target.correct is not None, target.degenerate) == (0, True, None)
    assert arm.accepted is not None
    assert arm.drafted is not None
    assert 0 < arm.accepted < arm.drafted
    assert arm.complete == arm.offered == 400
    assert arm.correct is not None
    assert 0 < arm.correct.right < arm.correct.scored == 400
    text = shown(report)
    for heading in ("Accepted drafts", "Complete outputs", "Correct answers"):
        assert f'<th scope="col" class="r">{heading}' in text
    assert "✕ worse" in text
    assert "Correct answers by stratum: copy" in text


def test_without_a_scorer_it_says_so() -> None:
    text = shown(build_report(make_evidence()))
    assert "no scorer declared" in text
    assert "worse" not in text


def test_where_scores_are_missing_it_says_so() -> None:
    evidence = evidence_with({"target-only": 1, "ngram": 1}, prompts=12)
    runs = tuple(run.model_copy(update={"scorer": None, "scores": {}}) for run in evidence.runs)
    assert "were not scored, although a scorer is declared" in shown(
        build_report(evidence.model_copy(update={"runs": runs}))
    )


def test_a_report_without_results_shows_nothing() -> None:
    assert shown(sample_report(complete=0)).strip() == ""
    assert "What was delivered" in shown(sample_report())
