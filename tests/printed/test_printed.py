"""The report to take away: it says what the report says, nothing of another's making runs, and no number is missing."""

import re
from html.parser import HTMLParser

import pytest
from pydantic import BaseModel

from app.domain.report import Report
from app.domain.statistics import Estimate
from app.printed.html import POLICY, STYLE, printable
from app.printed.markdown import escaped, markdown, told
from app.printed.numbers import numbers
from tests.factories_report import sample_report

HOSTILE = "<script>alert(1)</script> | [x](javascript:alert(1)) `code` *bold* _under_ \x1b[31m\u202e# head"


class Seen(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags = list[tuple[str, dict[str, str | None]]]()
        self.text = list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def seen(report: Report) -> Seen:
    parser = Seen()
    parser.feed(printable(report))
    return parser


def estimates(value: object) -> list[Estimate]:
    """Found another way than the code under test finds them: over the dumped values."""
    if isinstance(value, Estimate):
        return [value]
    if isinstance(value, BaseModel):
        return [e for name in type(value).model_fields for e in estimates(getattr(value, name))]
    if isinstance(value, dict):
        return [e for inner in value.values() for e in estimates(inner)]
    return [e for inner in value for e in estimates(inner)] if isinstance(value, tuple) else []


def hostile_report() -> Report:
    report = sample_report()
    verdict = report.verdicts[0].model_copy(update={"reasons": (HOSTILE,)})
    return report.model_copy(
        update={"name": HOSTILE, "verdicts": (verdict, *report.verdicts[1:]), "not_shown": (HOSTILE,)}
    )


def test_every_number_is_there_with_its_n_unit_and_method() -> None:
    report = sample_report()
    assert [n.estimate for n in numbers(report)] == estimates(report)
    rows = markdown(report).split("## Every number")[1].splitlines()
    assert len([row for row in rows if row.startswith("| ")]) == len(estimates(report)) + 1
    speedup = next(n for n in numbers(report) if n.section == "comparisons")
    assert speedup.place == "ngram-k4 / tasks / low / all / request_speedup"


def test_the_answer_comes_first_and_every_verdict_with_its_reasons() -> None:
    report = sample_report(complete=2, blocks=5)
    text = markdown(report)
    assert text.startswith(f"# {report.name}\n\n**interim: 2 of 5 blocks**\n\n")
    for verdict in report.verdicts:
        row = next(line for line in text.splitlines() if line.startswith(f"| {verdict.arm} | {verdict.workload} | "))
        assert all(escaped(reason) in text for reason in verdict.reasons)
        assert str(verdict.word) in text.split("## Verdicts")[1].split("\n## ")[0]
        assert row.count(" | ") >= 7
    assert text.endswith("\n")


@pytest.mark.parametrize("complete", [0, 5])
def test_a_report_without_blocks_is_told_as_such(complete: int) -> None:
    text = markdown(sample_report(complete=complete))
    assert ("Nothing to show." in text.split("## Verdicts")[1][:40]) == (complete == 0)


def test_what_others_wrote_stays_text() -> None:
    found = seen(hostile_report())
    assert not {"script", "a", "img", "em", "strong", "code"} & {
        tag for tag, attributes in found.tags if "javascript" in str(attributes) or tag == "script"
    }
    body = "".join(found.text)
    assert "<script>alert(1)</script> | [x](javascript:alert(1)) `code` *bold* _under_" in body
    assert "\x1b" not in body
    assert "\u202e" not in body


def test_the_page_loads_nothing_and_only_its_own_style_may_apply() -> None:
    found = seen(sample_report())
    assert not [attributes for _, attributes in found.tags if attributes.keys() & {"src", "href", "style", "onload"}]
    assert found.text[1] == STYLE or STYLE in found.text
    assert POLICY.startswith("default-src 'none'; ")
    assert re.search(r"style-src 'sha256-[A-Za-z0-9+/=]{44}'$", POLICY)


def test_an_estimate_says_why_it_has_no_value() -> None:
    nothing = Estimate(value=None, n=0, unit="ms", source="t interval", why="no *complete* block")
    assert told(nothing) == r"none: no \*complete\* block"
    assert (
        told(Estimate(value=1.23456789, low=1, high=2, n=5, unit="ratio", source="t"))
        == r"1.23457 \[1, 2\] ratio, n = 5"
    )
    assert told(None) == "none"


def test_each_check_of_the_checklist_is_told_with_its_state_and_remedy() -> None:
    text = markdown(sample_report()).split("## Could somebody else do it again?")[1].split("## ")[0]
    assert "| Compatible, and start-up archived | start-up archived | met | log by sha256: 15 of 15 |  |" in text
    assert "| Speculation length swept | ngram | not met | k = 4 | write several lengths |" in text
    assert "| not applicable | no request of the traces ends early |" in text
