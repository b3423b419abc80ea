from collections import Counter
from pathlib import Path

import pytest

from app.domain.errors import DomainError
from app.domain.trace import Trace, parse_trace
from app.domain.vocabulary import NS_PER_S, WARMUP
from app.workloads.choices import Turns
from app.workloads.drafting import Choices
from app.workloads.exporting import export_rows
from app.workloads.importing import open_source
from app.workloads.readers.registry import format_named
from app.workloads.slicing import Window, sample_trace, slice_trace
from tests.workloads.importing import imported, timed
from tests.workloads.reading import records
from tests.workloads.samples import SHAREGPT


@pytest.fixture
def azure(tmp_path: Path) -> Path:
    """300 requests of the Azure sample at one load point, behind a warm-up of 16."""
    return imported(tmp_path, "azure", timed(500), loads="a=2x300,b=2x100").trace.path


def cut(azure: Path, **window: object) -> Trace:
    output = azure.parent / "part.jsonl"
    written = slice_trace(azure, output, Window("a", **window))  # type: ignore[arg-type]
    trace = parse_trace(output.read_bytes())
    assert trace.digest == written.digest
    return trace


def test_a_window_keeps_its_requests_and_the_warmup(azure: Path) -> None:
    whole = parse_trace(azure.read_bytes())
    part = cut(azure, from_ns=30 * NS_PER_S, to_ns=60 * NS_PER_S)
    wanted = [r for r in whole.of_load("a") if 30 * NS_PER_S <= r.due_ns < 60 * NS_PER_S]
    assert wanted
    assert [(r.request_id, r.due_ns + 30 * NS_PER_S) for r in part.of_load("a")] == [
        (r.request_id, r.due_ns) for r in wanted
    ]
    assert part.of_load(WARMUP) == whole.of_load(WARMUP)
    (load,) = part.header.loads
    assert (load.requests, load.duration_ns) == (len(wanted), 30 * NS_PER_S)


def test_a_count_takes_the_first(azure: Path) -> None:
    part = cut(azure, count=10)
    assert [r.request_id for r in part.of_load("a")] == [
        r.request_id for r in parse_trace(azure.read_bytes()).of_load("a")[:10]
    ]


def test_speed_shrinks_every_gap_alike(azure: Path) -> None:
    whole = parse_trace(azure.read_bytes()).of_load("a")
    faster = cut(azure, speed=4.0)
    assert [r.due_ns for r in faster.of_load("a")] == [r.due_ns // 4 for r in whole]
    assert faster.header.loads[0].rate_rps == 8


def test_a_sample_is_fair_repeatable_and_as_large_as_asked(azure: Path) -> None:
    picks: Counter[str] = Counter()
    rates: set[float | None] = set()
    for seed in range(10):
        sample_trace(azure, azure.parent / "part.jsonl", "a", count=30, seed=seed)
        part = parse_trace((azure.parent / "part.jsonl").read_bytes())
        ids = [r.request_id for r in part.of_load("a")]
        assert len(ids) == 30
        picks.update(ids)
        rates.add(part.header.loads[0].rate_rps)
    assert len(picks) > 170
    assert max(picks.values()) <= 7
    assert rates == {0.2}
    first = sample_trace(azure, azure.parent / "one.jsonl", "a", count=30, seed=7)
    assert sample_trace(azure, azure.parent / "two.jsonl", "a", count=30, seed=7).digest == first.digest


def test_sessions_are_taken_whole(tmp_path: Path) -> None:
    whole = imported(
        tmp_path, "sharegpt", SHAREGPT, choices=Choices(turns=Turns.RECORDED), loads="a=1", warmup=0
    ).trace.path
    slice_trace(whole, tmp_path / "part.jsonl", Window("a", count=1))
    assert [r.request_id for r in parse_trace((tmp_path / "part.jsonl").read_bytes()).requests] == ["r2", "r2.1"]


@pytest.mark.parametrize(
    ("window", "field"),
    [
        ({"from_ns": 10**15}, "window"),
        ({"from_ns": 5, "to_ns": 5}, "window"),
        ({"speed": 0.0}, "speed"),
        ({"from_ns": 150 * NS_PER_S - 2, "to_ns": 150 * NS_PER_S - 1}, "trace"),
    ],
)
def test_an_empty_or_impossible_part_is_refused(azure: Path, window: dict[str, object], field: str) -> None:
    with pytest.raises(DomainError) as refused:
        cut(azure, **window)
    assert refused.value.problems[0].field == field
    assert not (azure.parent / "part.jsonl").exists()


def test_a_broken_trace_is_refused_not_cut(azure: Path) -> None:
    azure.write_bytes(azure.read_bytes()[:-50])
    with pytest.raises(DomainError):
        cut(azure)
    with pytest.raises(DomainError):
        sample_trace(azure, azure.parent / "part.jsonl", "none", count=1, seed=1)


def test_export_gives_the_source_back_whole_or_what_a_trace_has_of_it(azure: Path) -> None:
    path = azure.parent / "source.file"
    source = open_source(path, format_named("azure"))
    output = azure.parent / "back.csv"
    assert export_rows(source, output).rows == 500
    assert output.read_bytes() == path.read_bytes()
    assert export_rows(source, output, azure).rows == 416
    lines = {int(r.request_id[1:]) for r in parse_trace(azure.read_bytes()).requests}
    wanted = [record.row for record in records("azure", path.read_bytes()) if record.line in lines]
    assert [record.row for record in records("azure", output.read_bytes())] == wanted


def test_export_refuses_a_trace_of_another_source(azure: Path) -> None:
    other = azure.parent / "other.csv"
    other.write_bytes(timed(499))
    with pytest.raises(DomainError) as refused:
        export_rows(open_source(other, format_named("azure")), azure.parent / "back.csv", azure)
    assert refused.value.problems[0].field == "trace"
