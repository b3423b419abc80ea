"""The answer shows what every arm gives and costs, and the command as one line to copy; so do the printed reports."""

import io
import re

from rich.console import Console

from app.domain.report import Report, build_report
from app.domain.startup import StartupWarning, WarningEffect
from app.pages.views import ENVIRONMENT
from app.printed.html import printable
from app.printed.markdown import markdown
from app.tables import print_verdicts
from tests.domain.evidence_factory import Dials, make_evidence, make_manifest, replace_session
from tests.domain.test_recommendation import FASTER, against_deployed, report_of


def _page(report: Report) -> str:
    return "".join(ENVIRONMENT.get_template(name).render(report=report) for name in ("_answer.html", "_weighed.html"))


def _text(report: Report) -> str:
    console = Console(file=io.StringIO(), width=400)
    print_verdicts(console, report)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_each_arm_is_shown_with_its_words_and_its_costs() -> None:
    page = _page(report_of(arm_speedup={"draft": 1.2}))
    said = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page))
    assert "▲ HELPS copy at low latency ▲ HELPS copy at high serving" in said
    assert "-20.0%" in page
    assert "-2.0" in page
    assert "2.50 MB" in page
    assert "another checkpoint to pin" in page
    assert "slower than the first choice" in page


def test_where_an_arm_loses_against_what_is_deployed_is_beside_where_it_helps() -> None:
    report = against_deployed(0.8, 1.6)
    said = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", _page(report)))
    assert "▲ HELPS deployed, copy at low 1.6" in said
    assert "▼ HURTS deployed, copy at high 0.81" in said
    assert "as it would be deployed" not in _page(report_of())
    for text in (markdown(report), _text(report)):
        assert "(deployed) it helps on copy at low and hurts on copy at high" in text


def test_what_the_engine_logged_and_what_we_read_in_it_are_two_things() -> None:
    notice = StartupWarning(
        name="x", effect=WarningEffect.NOTICE, reason="a draft is cut to 512 tokens", line="len 512"
    )
    evidence = replace_session(make_evidence(Dials(speedup=FASTER)), arm="ngram", block=0, warnings=(notice,))
    said = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", _page(build_report(evidence))))
    assert "a draft is cut to 512 tokens the engine\u2019s line len 512" in said


def test_what_nobody_confirmed_is_not_offered_for_deployment() -> None:
    report = report_of()
    for text in (_page(report), markdown(report), printable(report), _text(report)):
        assert "As it was measured; confirm it before production" in text
        assert "To deploy it" not in text
        assert "First put the directory with the digest" in text
    assert report.recommendation.command in markdown(report)
    assert report.recommendation.command in _text(report)


def test_a_confirmed_arm_is() -> None:
    report = build_report(make_evidence(Dials(speedup=FASTER)))
    for text in (_page(report), markdown(report), printable(report), _text(report)):
        assert "To deploy it" in text


def test_an_answer_without_an_arm_has_no_command() -> None:
    report = build_report(make_evidence())
    assert "vllm serve" not in _page(report)
    assert "keep target-only" in _page(report).lower()


def test_looks_are_told_wherever_the_answer_is() -> None:
    manifest = make_manifest(blocks=10, looks=[5])
    report = build_report(make_evidence(Dials(speedup=FASTER, manifest=manifest, blocks_run=5)))
    for text in (_page(report), markdown(report), printable(report), _text(report)):
        assert "After 5 of 10 blocks, at 0.56% of error: HELPS 2; every word of the family is settled" in text
