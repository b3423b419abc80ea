"""What people are shown: no name is cut, what is not observable is said, and the profiler's cost beside the drift."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from app.domain.errors import EvidenceRefused
from app.domain.exposition import parse_exposition
from app.domain.step_profile import StepProfile, step_profile
from app.domain.vocabulary import Method
from worker.profiling.outcome import ArmProfile, EngineStep, engine_step
from worker.profiling.table import show
from worker.profiling.trace_file import read_spans

RECORDED = Path(__file__).parent.parent.parent / "data" / "profile" / "draft_model_cpu.json"
METRICS = (
    'vllm:inter_token_latency_seconds_sum{{engine="0"}} {}\nvllm:inter_token_latency_seconds_count{{engine="0"}} {}\n'
)


def told(profile: StepProfile, *means_ms: float | None) -> ArmProfile:
    before, profiled, after = (EngineStep(n=14, mean_ms=mean) for mean in means_ms)
    return ArmProfile(
        arm="draft-model-k4",
        method=Method.DRAFT_MODEL,
        k=4,
        load="low",
        requests=2,
        concurrency=1,
        profile=profile,
        before=before,
        profiled=profiled,
        after=after,
        trace_path="/kept/rank0.pt.trace.json.gz",
    )


def shown(found: ArmProfile) -> str:
    console = Console(file=StringIO(), width=80)
    show(console, [found])
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_every_name_and_number_is_there() -> None:
    text = shown(told(step_profile(read_spans(RECORDED), drafts=True), 30.0, 36.0, 33.0))
    assert "…" not in text
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if line.startswith("│")]
    assert ["draft-model-k4", "decode", "draft", "14", "12.974", "11.986", "18.153", "181.642"] in rows
    assert ["draft-model-k4", "14", "1.00", "5.00", "13.452", "12.974", "10.310", "36.737"] in rows
    engine = ["30.000", "14", "36.000", "14", "33.000", "14", "+14.3%", "+10.0%"]
    assert ["draft-model-k4", *engine] in rows
    assert "times of the host" in text


def test_what_was_not_seen_is_said() -> None:
    text = shown(told(step_profile([], drafts=True), 30.0, None, 33.0))
    assert "scopes not observable: the trace has none of the engine's scopes" in text
    assert told(step_profile([], drafts=True), 30.0, None, 33.0).overhead is None


def test_a_step_by_the_engines_metrics() -> None:
    first, second = (parse_exposition(METRICS.format(*values)) for values in ((1.0, 10.0), (1.5, 30.0)))
    assert engine_step(first, second) == EngineStep(n=20, mean_ms=25.0)
    assert engine_step(first, first) == EngineStep(n=0, mean_ms=None)
    with pytest.raises(EvidenceRefused, match="inter_token_latency"):
        engine_step(parse_exposition(""), second)
