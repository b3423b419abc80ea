"""The profiler's file, whole and broken, read as the engine writes it: gzipped JSON of any length."""

import gzip
import json
from pathlib import Path

import pytest

from app.domain.errors import EvidenceRefused
from app.domain.step_profile import SCOPES, step_profile
from worker.profiling import trace_file
from worker.profiling.trace_file import find_trace, read_spans

RECORDED = Path(__file__).parent.parent.parent / "data" / "profile" / "draft_model_cpu.json"
NAME = "rank0.1796040341508484871.pt.trace.json.gz"


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """The recorded trace under the name and in the form that the engine gives it."""
    path = tmp_path / NAME
    path.write_bytes(gzip.compress(RECORDED.read_bytes()))
    return path


@pytest.mark.parametrize("characters", [1, 700, 1 << 20])
def test_it_is_read_piece_by_piece(packed: Path, characters: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_file, "CHUNK_CHARACTERS", characters)
    spans = read_spans(packed)
    assert sum(span.name in SCOPES for span in spans) == 98
    assert step_profile(spans, drafts=True) == step_profile(read_spans(RECORDED), drafts=True)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_file_that_was_cut_off_is_refused(packed: Path, share: float) -> None:
    content = packed.read_bytes()
    packed.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(EvidenceRefused, match="is no whole trace"):
        read_spans(packed)


@pytest.mark.parametrize(
    "content",
    [b"no gzip at all", gzip.compress(b"{}"), gzip.compress(b'{"traceEvents": [{"ph":')],
    ids=["no gzip", "no events", "cut off"],  # bytes would name the time of compression
)
def test_what_is_no_trace_is_refused(packed: Path, content: bytes) -> None:
    packed.write_bytes(content)
    with pytest.raises(EvidenceRefused, match=NAME):
        read_spans(packed)


def test_a_trace_without_events_is_one(packed: Path) -> None:
    packed.write_bytes(gzip.compress(json.dumps({"traceEvents": []}).encode()))
    assert read_spans(packed) == []


@pytest.mark.parametrize("name", ["dp0_pp0_tp{0}_rank{0}", "{1}-rank-{0}"])
def test_the_first_rank_is_chosen(tmp_path: Path, name: str) -> None:
    with pytest.raises(EvidenceRefused, match="the profiler wrote none"):
        find_trace(tmp_path)
    for rank in (10, 1, 0):
        (tmp_path / f"{name.format(rank, 90 - rank)}.1.pt.trace.json.gz").touch()
    assert name.format(0, 90) in find_trace(tmp_path).name
