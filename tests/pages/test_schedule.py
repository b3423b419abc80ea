"""The schedule of k is shown with the loads that it rests on; where there is none, with the reason."""

from app.domain.report import Report, build_report
from app.pages.views import ENVIRONMENT
from app.printed.html import printable
from app.printed.markdown import markdown
from tests.domain.evidence_factory import Dials, make_evidence
from tests.domain.test_k_schedule import FALLING, World, evidence_of


def _page(report: Report) -> str:
    return ENVIRONMENT.get_template("_schedule.html").render(report=report)


def test_a_schedule_is_shown_on_the_page_and_in_print() -> None:
    report = build_report(evidence_of(World(FALLING)))
    for text in (_page(report), markdown(report), printable(report)):
        assert "batch 1 to 3: k = 8; batch 4 to 8: k = 4; batch 9 to 16: off" in text
        assert "5 to 8" in text
        assert "per_batch_size" in text
    assert report.schedules[0].speculation in markdown(report)


def test_a_reason_is_shown_where_there_is_none() -> None:
    report = build_report(make_evidence(Dials(speedup={"low": 1.5, "high": 0.7})))
    for text in (_page(report), markdown(report)):
        assert "no schedule of k by batch size" in text
        assert "unknown" in text
