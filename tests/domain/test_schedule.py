from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.condition import Condition, expand
from app.domain.manifest import Manifest
from app.domain.schedule import plan
from tests.domain.evidence_factory import make_manifest, manifest_document


def arms(count: int) -> list[dict[str, Any]]:
    """Target-only and ``count - 1`` ngram arms."""
    candidates = [
        {"name": f"ngram{k}", "speculation": {"method": "ngram", "num_speculative_tokens": k}} for k in range(1, count)
    ]
    return [manifest_document()["arms"][0], *candidates]


def scheduled(count: int, blocks: int, seed: int) -> Manifest:
    """A manifest of so many arms and blocks."""
    return make_manifest(arms=arms(count), blocks=blocks, schedule_seed=seed)


@given(st.integers(2, 6), st.integers(1, 15), st.integers(0, 2**63 - 1))
def test_every_block_has_every_arm_once(count: int, blocks: int, seed: int) -> None:
    manifest = scheduled(count, blocks, seed)
    planned = plan(manifest)
    assert [block.index for block in planned] == list(range(blocks))
    for block in planned:
        assert sorted(s.arm for s in block.sessions) == sorted(a.name for a in manifest.arms)
        assert [s.position for s in block.sessions] == list(range(count))


@given(st.integers(2, 6), st.integers(1, 15), st.integers(0, 2**63 - 1))
def test_every_arm_stands_in_every_place_about_equally_often(count: int, blocks: int, seed: int) -> None:
    places = Counter((s.arm, s.position) for block in plan(scheduled(count, blocks, seed)) for s in block.sessions)
    fewest = min(places.get((f"ngram{k}", p), 0) for k in range(1, count) for p in range(count))
    assert max(places.values()) - fewest <= 1


def test_two_arms_alternate_in_pairs_of_blocks() -> None:
    first = [block.sessions[0].arm for block in plan(scheduled(2, 10, 5))]
    assert all({first[i], first[i + 1]} == {"target-only", "ngram1"} for i in range(0, 10, 2))


def test_the_plan_depends_on_the_seed_and_on_nothing_else() -> None:
    assert plan(scheduled(4, 8, 1)) == plan(scheduled(4, 8, 1))
    assert len({plan(scheduled(4, 8, seed)) for seed in range(20)}) > 10


def test_a_session_runs_all_its_conditions_from_low_to_high() -> None:
    loads = list(reversed(manifest_document()["loads"]))
    manifest = make_manifest(loads=loads)
    for session in plan(manifest)[0].sessions:
        assert [run.load for run in session.runs] == ["low", "high"]
        assert all(run.arm == session.arm for run in session.runs)


def test_expansion_is_the_whole_product_with_unique_ids() -> None:
    manifest = make_manifest(
        arms=arms(3), workloads=[{"name": "a", "trace": "a" * 64}, {"name": "b", "trace": "b" * 64}]
    )
    conditions = expand(manifest)
    assert len(conditions) == len({c.id for c in conditions}) == 3 * 2 * 2
    assert Condition("ngram2", "b", "high").id == "ngram2/b/high"


@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_the_plan_has_as_many_blocks_as_asked(blocks: int) -> None:
    assert len(plan(scheduled(3, blocks, 0))) == blocks
