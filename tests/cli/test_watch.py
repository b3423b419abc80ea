import io
import unicodedata

import httpx
import pytest
from rich.console import Console

from app.client import Refused, Service
from app.domain.report import Report
from app.watch import watch
from tests.cli.fake_api import IDENTITY, FakeApi


def _watched(api: FakeApi, *, terminal: bool = False) -> tuple[Report | None, str]:
    written = io.StringIO()
    console = Console(file=written, force_terminal=terminal, width=100)
    with Service("http://verdraft", httpx.MockTransport(api)) as service:
        report = watch(service, IDENTITY, console, sleep=lambda _: None)
    return report, written.getvalue()


def test_a_log_gets_plain_lines_an_interim_table_after_each_block_and_the_verdict() -> None:
    report, text = _watched(FakeApi(blocks=5))
    assert report is not None
    assert text.count("INTERIM after") == 4
    assert "INTERIM after 2 of 5 blocks: not a decision" in text
    assert "Verdict after 5 of 5 blocks" in text
    assert "conditions 12/60 · block 2/5 ngram-k4/edit/latency measuring · about 4 min left" in text
    assert text.rstrip().endswith(f"http://verdraft/experiments/{IDENTITY[:12]}")
    assert [c for c in text if unicodedata.category(c) == "Cc" and c != "\n"] == []


def test_the_verdict_table_has_one_line_for_each_verdict_with_word_ratio_and_interval() -> None:
    report, text = _watched(FakeApi(blocks=5))
    assert report is not None
    table = text.split("Verdict after 5 of 5 blocks")[1].splitlines()
    for verdict in report.verdicts:
        (line,) = [x for x in table if x.split()[:3] == [verdict.arm, verdict.workload, verdict.load]]
        assert verdict.word in line
        ratio = verdict.ratio
        assert (f"{ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]" if ratio else " - ") in line
    assert f"Recommendation: {report.recommendation.sentence}" in text


def test_below_five_blocks_every_verdict_is_marked_exploratory() -> None:
    report, text = _watched(FakeApi(blocks=2))
    assert report is not None
    final = text.split("Verdict after 2 of 2 blocks (EXPLORATORY")[1]
    assert final.count("(exploratory)") == len(report.verdicts)


def test_a_terminal_gets_a_bar_with_the_same_tables() -> None:
    _, text = _watched(FakeApi(blocks=5), terminal=True)
    assert "\x1b[" in text
    assert "INTERIM after 1 of 5 blocks" in text
    assert "Verdict after 5 of 5 blocks" in text


def test_a_failure_is_told_once_as_it_was_written() -> None:
    _, text = _watched(FakeApi(blocks=5, failing=True))
    assert text.count("! block 1/ngram-k4: OOM: [no] memory left") == 1


def test_interrupting_leaves_the_experiment_running_and_says_so() -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    written = io.StringIO()
    api = FakeApi(blocks=5)
    with Service("http://verdraft", httpx.MockTransport(api)) as service:
        assert watch(service, IDENTITY, Console(file=written), sleep=interrupt) is None
    assert "The experiment goes on" in written.getvalue()
    assert f"verdraft watch {IDENTITY[:12]}" in written.getvalue()


def test_an_answer_that_is_not_ours_is_refused_in_words() -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(502, text="<html>"))
    with Service("http://verdraft", transport) as service, pytest.raises(Refused) as refused:
        service.experiment(IDENTITY)
    assert "502" in refused.value.problem["detail"]
