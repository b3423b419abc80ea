"""The page of a mismatch: found by its address, told with texts where they are known, and harmless."""

from types import SimpleNamespace

import pytest

from app.domain.errors import NotFound
from app.domain.greedy_tables import GreedyMode
from app.pages import mismatches
from app.pages.mismatches import MismatchQuery
from app.pages.views import ENVIRONMENT
from tests.factories_report import sample_report

REPORT = sample_report(mismatches=3)


def test_every_listed_mismatch_has_an_address_of_its_own() -> None:
    queries = [MismatchQuery.of(m) for m in REPORT.mismatches]
    assert len(set(queries)) == 3
    assert [mismatches.find(REPORT, query) for query in queries] == list(REPORT.mismatches)
    address = mismatches.address("/experiments/abc", REPORT.mismatches[0])
    expected = "arm=ngram-k4&block=1&mode=timed&workload=tasks&request_id=tasks-low-000"
    assert address == f"/experiments/abc/mismatch?{expected}"


def test_an_unknown_mismatch_is_not_found() -> None:
    query = MismatchQuery(arm="ngram-k4", block=1, mode=GreedyMode.SINGLE, workload="tasks", request_id="x")
    with pytest.raises(NotFound):
        mismatches.find(REPORT, query)


def test_tokens_are_side_by_side_with_their_texts() -> None:
    window = mismatches.token_window(REPORT.mismatches[0])
    differing = [(t.index, t.baseline.label, t.arm.label) for t in window if t.differs]
    assert differing == [(3, "'<b>'", "'<script>'"), (5, "end", "16")]


def test_the_page_tells_everything_and_escapes_what_a_model_said() -> None:
    mismatch = REPORT.mismatches[0]
    context = {
        "m": mismatch,
        "experiment": SimpleNamespace(id="a" * 64, name="demo"),
        "tokens": mismatches.token_window(mismatch),
        "choices": mismatches.alternatives(mismatch),
        "token": "t",
        "path": "/",
        **mismatches.WORDS,
    }
    html = ENVIRONMENT.get_template("mismatch.html").render(**context)
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "a defect: the arm&#39;s answers are not the target&#39;s" in html
    for told in ("2.5 nats", "0.25 nats", "alone", "21.5"):
        assert told in html
