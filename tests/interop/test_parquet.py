import io
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.errors import EvidenceRefused
from app.domain.observation import RequestObservation
from app.domain.report import ANALYSIS_VERSION
from app.interop.exports import as_parquet
from app.interop.exports.as_parquet import observation_of_row
from app.interop.exports.encoder import encode
from app.interop.exports.formats import format_of
from app.interop.exports.outline import Outline
from tests.factories import make_observation
from tests.interop.evidence import exported, make_evidence, make_run, observations, small_evidence


def opened(content: bytes) -> Any:
    return pq.ParquetFile(io.BytesIO(content))


def rows_of(content: bytes) -> list[dict[str, Any]]:
    return opened(content).read().to_pylist()


def test_a_request_has_one_row_with_types_and_lists() -> None:
    file = opened(exported(small_evidence(), "parquet-requests"))
    void, served, refused = file.read().to_pylist()
    assert (void["counted"], served["counted"]) == (False, True)
    assert (served["stratum_task"], served["chunk_ns"]) == ("copy", [20_000_000, 50_000_000])
    assert (served["tpot_ns"], refused["sent_ns"], refused["per_step_drafted"]) == (10_000_000.0, None, None)
    schema = file.schema_arrow
    kinds = [str(schema.field(name).type) for name in ("due_ns", "tpot_ns", "chunk_ns", "text")]
    assert kinds[:2] + kinds[3:] == ["int64", "double", "string"]
    assert kinds[2].startswith("list<")
    assert "int64" in kinds[2]


def test_a_chunk_has_one_row() -> None:
    _, _, first, second = rows_of(exported(small_evidence(), "parquet-chunks"))
    assert [first[k] for k in ("request_id", "chunk", "at_ns", "gap_ns", "tokens")] == [
        *("tasks-low-0", 0, 20_000_000, None, 1)
    ]
    assert [second[k] for k in ("chunk", "since_due_ns", "gap_ns", "tokens")] == [1, 50_000_000, 30_000_000, 3]


@pytest.mark.parametrize("name", ["parquet-requests", "parquet-chunks"])
def test_a_file_says_what_it_is(name: str) -> None:
    file = opened(exported(small_evidence(), name))
    facts = file.schema_arrow.metadata
    assert facts[b"verdraft.experiment"].decode() == small_evidence().manifest.digest
    assert facts[b"verdraft.analysis_version"].decode() == ANALYSIS_VERSION
    assert facts[b"verdraft.format"].endswith(b"-parquet/v0")
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"


def test_row_groups_leave_while_runs_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(as_parquet, "REQUESTS_IN_GROUP", 2)
    seen = [make_observation(f"r{i}") for i in range(5)]
    content = exported(make_evidence(make_run(seen[:3]), make_run(seen[3:], attempt=2)), "parquet-requests")
    file = opened(content)
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [2, 2, 1]
    assert [row["request_id"] for row in rows_of(content)] == [o.request_id for o in seen]


@pytest.mark.parametrize("name", ["csv", "jsonl", "parquet-requests", "parquet-chunks"])
def test_a_run_in_portions_gives_the_same_bytes(name: str) -> None:
    seen = [make_observation(f"r{i}") for i in range(7)]
    whole = make_evidence(make_run(seen))
    outline, chosen = Outline(whole), format_of(name, one_run=False)
    portions = [make_run(seen[:3]), make_run(seen[3:4]), make_run(seen[4:])]
    assert b"".join(encode(chosen.encoder(outline), portions)) == exported(whole, name)


def test_an_experiment_without_runs_is_an_empty_table() -> None:
    assert rows_of(exported(make_evidence(), "parquet-requests")) == []


def test_a_number_beyond_64_bits_is_refused_by_name() -> None:
    with pytest.raises(EvidenceRefused, match="does not fit its column"):
        exported(make_evidence(make_run([make_observation(due_ns=2**70, chunk_ns=())])), "parquet-requests")


@given(st.lists(observations, max_size=4))
@settings(deadline=None, max_examples=50)
def test_observations_read_back_exactly(seen: list[RequestObservation]) -> None:
    content = exported(make_evidence(make_run(seen)), "parquet-requests")
    assert [observation_of_row(row) for row in rows_of(content)] == seen


@given(st.lists(observations, max_size=4))
@settings(deadline=None, max_examples=50)
def test_chunks_read_back_exactly(seen: list[RequestObservation]) -> None:
    rows = rows_of(exported(make_evidence(make_run(seen)), "parquet-chunks"))
    times = [at for o in seen for at in o.chunk_ns]
    assert [row["at_ns"] for row in rows if row["at_ns"] is not None] == times
    assert [row["tokens"] for row in rows if row["tokens"] is not None] == [n for o in seen for n in o.chunk_tokens]
