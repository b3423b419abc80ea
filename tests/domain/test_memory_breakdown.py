"""The breakdown from hand-made facts: what is added up, what is left open, and what it says of itself."""

from dataclasses import replace

import pytest

from app.domain.memory import CacheFacts, LoggedMemory, MemoryBreakdown, MemoryFacts, MemoryPart, ModelMemory
from app.domain.memory_breakdown import ACCOUNTING, SET_ASIDE, breakdown, row_of, split_weights
from app.domain.memory_peak import at_peak
from app.domain.series import DEVICE_MEMORY, ENGINE_DEVICE_MEMORY, ENGINE_RSS, Series
from app.domain.vocabulary import Method

GIB = 1024**3
TARGET = ModelMemory(10 * GIB, "headers of the target", 10 * GIB, 32_768, "layers of the target")
DRAFT = ModelMemory(GIB, "headers of the draft", GIB, 2_048, "layers of the draft")
LOG = LoggedMemory(
    load=(10 * GIB,),
    non_torch=(GIB // 4,),
    activations=(3 * GIB,),
    graphs=(GIB // 2,),
    kv_cache=(50 * GIB,),
    kv_tokens=50 * GIB // 32_768,
    max_concurrency=800.0,
    device_total=(140 * GIB,),
    device_free=(139 * GIB,),
    requested=(70 * GIB,),
)
FACTS = MemoryFacts(
    method=Method.TARGET_ONLY,
    log=LOG,
    cache=CacheFacts(50 * GIB // 32_768, "blocks", 16),
    target=TARGET,
    draft=None,
    ranks=1,
    on_gpu=True,
    capacity_bytes=140 * GIB,
    capacity_source="NVML",
)
WITH_DRAFT = replace(
    FACTS,
    method=Method.DRAFT_MODEL,
    log=replace(LOG, load=(11 * GIB,)),
    cache=CacheFacts(50 * GIB // 34_816, "blocks", 16),
    draft=DRAFT,
)
EXPLAINED = 10 * GIB + 50 * GIB + GIB // 2 + GIB + GIB // 4


def size(made: MemoryBreakdown, part: MemoryPart) -> int | None:
    row = row_of(made, part)
    assert row is not None
    return row.size_bytes


def series(name: str, *values: float, **labels: str) -> Series:
    return Series(name=name, labels=labels, at_ns=tuple(range(len(values))), values=values)


def test_the_remainder_is_what_the_rows_do_not_explain() -> None:
    made = at_peak(breakdown(FACTS), [series(DEVICE_MEMORY, 60.0 * GIB, EXPLAINED + 5.0, 61.0 * GIB, gpu="0")])
    assert made.total_bytes == EXPLAINED + 5
    assert size(made, MemoryPart.REMAINDER) == 5
    assert size(made, MemoryPart.HEADROOM) == 140 * GIB - EXPLAINED - 5
    assert made.total_source == "NVML, memory in use, the highest of 3 samples"
    parts = {row.part: row.size_bytes or 0 for row in made.rows if not row.at_most}
    assert sum(parts.values()) - parts[MemoryPart.HEADROOM] == made.total_bytes


def test_what_is_only_set_aside_for_activations_is_not_taken_for_used() -> None:
    """The engine sizes its cache so that the profiled peak would fit; that much need never be in use."""
    made = at_peak(breakdown(FACTS), [series(DEVICE_MEMORY, EXPLAINED + 1.0 * GIB)])
    activations, remainder = row_of(made, MemoryPart.ACTIVATIONS), row_of(made, MemoryPart.REMAINDER)
    assert activations is not None
    assert remainder is not None
    assert (activations.size_bytes, activations.at_most) == (3 * GIB, True)
    assert activations.source.endswith("in use at most")
    assert remainder.size_bytes == GIB
    assert "without activations at peak, of which it holds what was in use" in remainder.source
    assert [row.part for row in made.rows if row.at_most] == [MemoryPart.ACTIVATIONS]


def test_a_breakdown_recorded_before_that_was_known_is_read_the_same_way() -> None:
    now = breakdown(FACTS)
    rows = [
        {**row.model_dump(exclude={"at_most"}), "source": row.source.removesuffix(f"; {SET_ASIDE}")} for row in now.rows
    ]
    then = MemoryBreakdown.model_validate({**now.model_dump(), "rows": rows})
    assert not any(row.at_most for row in then.rows)
    sampled = [series(DEVICE_MEMORY, EXPLAINED + 1.0 * GIB)]
    assert at_peak(then, sampled) == at_peak(now, sampled) == at_peak(at_peak(then, sampled), sampled)


def test_a_remainder_below_zero_is_shown_as_it_is() -> None:
    made = at_peak(breakdown(FACTS), [series(DEVICE_MEMORY, EXPLAINED - 7.0)])
    assert size(made, MemoryPart.REMAINDER) == -7


def test_without_samples_nothing_is_said_of_the_peak() -> None:
    made = at_peak(breakdown(FACTS), [series("vllm:num_requests_running", 1.0), series(DEVICE_MEMORY)])
    assert made.total_bytes is None
    assert size(made, MemoryPart.REMAINDER) is size(made, MemoryPart.HEADROOM) is None


def test_the_peak_of_several_gpus_is_each_ones_own_over_all_runs() -> None:
    runs = [
        series(DEVICE_MEMORY, 10.0, 30.0, gpu="a"),
        series(DEVICE_MEMORY, 20.0, 5.0, gpu="b"),
        series(DEVICE_MEMORY, 40.0, gpu="a"),
    ]
    made = at_peak(breakdown(FACTS), runs)
    assert made.total_bytes == 60
    assert "2 GPUs" in made.total_source


def test_the_engines_own_memory_is_beside_the_devices() -> None:
    made = at_peak(breakdown(FACTS), [series(DEVICE_MEMORY, 90.0), series(ENGINE_DEVICE_MEMORY, 70.0, 80.0)])
    check = made.checks[-1]
    assert (check.quantity, check.size_bytes, check.other_bytes) == ("device memory at peak", 90, 80)


def test_a_cpu_engine_is_measured_by_its_resident_memory() -> None:
    facts = replace(FACTS, on_gpu=False, log=LoggedMemory(kv_cache=(50 * GIB,), eager=True), capacity_bytes=64 * GIB)
    made = at_peak(breakdown(facts), [series(ENGINE_RSS, 61.0 * GIB, 62.0 * GIB)])
    assert made.total_bytes == 62 * GIB
    assert size(made, MemoryPart.TARGET_WEIGHTS) == 10 * GIB
    assert size(made, MemoryPart.REMAINDER) == 2 * GIB
    remainder = row_of(made, MemoryPart.REMAINDER)
    assert remainder is not None
    assert remainder.source.endswith("holds activations at peak, allocator and driver reserve")
    assert any("share pages" in caveat for caveat in made.caveats)


def test_one_line_for_two_models_is_not_divided_by_their_files() -> None:
    made = breakdown(WITH_DRAFT)
    assert size(made, MemoryPart.TARGET_WEIGHTS) is size(made, MemoryPart.DRAFT_WEIGHTS) is None
    assert size(made, MemoryPart.WEIGHTS) == 11 * GIB
    weights = made.checks[0]
    assert (weights.quantity, weights.size_bytes, weights.other_bytes) == ("weights", 11 * GIB, 11 * GIB)
    split = split_weights(made, breakdown(FACTS))
    assert size(split, MemoryPart.DRAFT_WEIGHTS) == GIB
    assert row_of(split, MemoryPart.WEIGHTS) is None
    total = [row.size_bytes or 0 for row in made.rows]
    assert sum(row.size_bytes or 0 for row in split.rows) == sum(total)


def test_without_target_onlys_figure_nothing_is_split() -> None:
    made = breakdown(WITH_DRAFT)
    assert (
        split_weights(made, breakdown(replace(FACTS, log=LoggedMemory(), target=replace(TARGET, weights_bytes=None))))
        == made
    )
    assert split_weights(breakdown(FACTS), breakdown(FACTS)) == breakdown(FACTS)


def test_models_share_the_blocks() -> None:
    made = breakdown(WITH_DRAFT)
    tokens = 50 * GIB // 34_816
    assert size(made, MemoryPart.KV_CACHE_TARGET) == tokens * 32_768
    assert size(made, MemoryPart.KV_CACHE_DRAFT) == tokens * 2_048
    assert row_of(made, MemoryPart.KV_CACHE) is None


def test_a_division_of_the_cache_that_is_not_the_engines_is_refused() -> None:
    """Twice as many bytes a token as the engine's own figure leaves room for: the layers are not what we think."""
    made = breakdown(replace(WITH_DRAFT, draft=replace(DRAFT, kv_bytes_per_token=34_816)))
    assert size(made, MemoryPart.KV_CACHE_TARGET) is size(made, MemoryPart.KV_CACHE_DRAFT) is None
    assert size(made, MemoryPart.KV_CACHE) == 50 * GIB


def test_heads_without_attention_cache_nothing() -> None:
    facts = replace(WITH_DRAFT, method=Method.MEDUSA, cache=CacheFacts(50 * GIB // 32_768, "blocks", 16))
    assert size(breakdown(facts), MemoryPart.KV_CACHE_DRAFT) == 0
    assert size(breakdown(facts), MemoryPart.KV_CACHE_TARGET) == 50 * GIB


def test_the_estimate_for_graphs_is_taken_out_of_newer_activations() -> None:
    newer = replace(LOG, consumed=(10 * GIB + GIB // 4,), non_torch=(), graphs_estimated=(GIB,), estimate_counts=True)
    made = breakdown(replace(FACTS, log=newer))
    assert size(made, MemoryPart.ACTIVATIONS) == 2 * GIB
    assert size(made, MemoryPart.RESERVE) == GIB + GIB // 4
    older = breakdown(replace(FACTS, log=replace(LOG, graphs_estimated=(GIB,), estimate_counts=True)))
    assert size(older, MemoryPart.ACTIVATIONS) == 3 * GIB


@pytest.mark.parametrize("printed", [(5 * GIB, 5 * GIB), (5 * GIB,)])
def test_ranks_are_added_and_a_silent_rank_is_not_invented(printed: tuple[int, ...]) -> None:
    made = breakdown(
        replace(FACTS, ranks=2, log=replace(LOG, load=printed), target=replace(TARGET, weights_bytes=None))
    )
    row = row_of(made, MemoryPart.TARGET_WEIGHTS)
    assert row is not None
    assert row.size_bytes == (10 * GIB if len(printed) > 1 else None)
    assert ("2 processes together" if len(printed) > 1 else "printed by 1 of 2 processes") in row.source


def test_eager_servers_capture_nothing() -> None:
    made = breakdown(replace(FACTS, log=replace(LOG, graphs=(), eager=True)))
    assert size(made, MemoryPart.GRAPHS) == 0


def test_every_row_says_where_it_is_from_and_the_order_is_that_of_the_parts() -> None:
    for facts in (FACTS, WITH_DRAFT, replace(FACTS, log=LoggedMemory(), on_gpu=False)):
        made = breakdown(facts)
        assert all(row.source for row in made.rows)
        order = [row.part for row in made.rows]
        assert order == sorted(order, key=list(MemoryPart).index)
        assert ACCOUNTING in made.caveats
