"""The list of brackets on the compare page says what the report says, bound or unbound."""

from app.domain.attrition import Attrition
from app.domain.report import build_report
from app.pages.views import ENVIRONMENT
from tests.domain.evidence_factory import Dials, make_evidence

SHORT = {"arm": "ngram", "workload": "copy", "load": "low", "failed_target": 0, "failed_arm": 2}


def test_every_sentence_is_there_and_an_absent_bound_is_a_word() -> None:
    report = build_report(make_evidence(Dials(speedup={"low": 1.5, "high": 0.6})))
    report = report.model_copy(update={"attrition": (Attrition.model_validate({**SHORT, "low": None, "high": 1.25}),)})
    page = ENVIRONMENT.get_template("_brackets.html").render(report=report)
    assert report.crossovers[0].sentence in page
    assert all(knee.sentence in page for knee in report.knees)
    assert "between any loss and 1.250 times" in page
