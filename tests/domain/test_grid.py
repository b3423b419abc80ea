"""Lists in an arm become arms; the frozen manifest knows only arms."""

from typing import Any

import pytest

from app.domain.errors import FieldProblem, ManifestRefused
from app.domain.layout import as_written
from app.domain.manifest import parse_manifest
from tests.factories import BASELINE, DRAFT, NGRAM, manifest_document


def _draft(**speculation: Any) -> dict[str, Any]:
    keys = {"method": "draft_model", "num_speculative_tokens": 4, **speculation}
    return {"name": "draft", "draft_or_speculator": DRAFT, "speculation": keys}


def _names(*arms: dict[str, Any]) -> list[str]:
    return [arm.name for arm in parse_manifest(manifest_document(arms=[BASELINE, *arms])).candidates]


def test_a_list_of_k_becomes_one_arm_for_each() -> None:
    assert _names(_draft(num_speculative_tokens=[2, 4, 8])) == ["draft-k2", "draft-k4", "draft-k8"]


def test_lists_multiply_in_the_order_of_the_axes() -> None:
    arm = _draft(
        draft_sample_method=["greedy", "probabilistic"],
        num_speculative_tokens=[2, 4],
        rejection_sampling=["standard", "block"],
    )
    assert _names(arm)[:3] == ["draft-k2-standard-greedy", "draft-k2-standard-probabilistic", "draft-k2-block-greedy"]
    assert len(_names(arm)) == 8


def test_a_grid_is_the_manifest_that_names_its_arms() -> None:
    arms = [_draft(num_speculative_tokens=k) | {"name": f"draft-k{k}"} for k in (2, 4)]
    listed = parse_manifest(manifest_document(arms=[BASELINE, *arms]))
    grid = parse_manifest(manifest_document(arms=[BASELINE, _draft(num_speculative_tokens=[2, 4])]))
    assert grid.digest == listed.digest
    assert b"[2" not in grid.canonical()


def test_a_single_arm_may_be_a_grid() -> None:
    document = manifest_document()
    del document["arms"]
    manifest = parse_manifest(document | {"speculation": {"method": "ngram", "num_speculative_tokens": [2, 4]}})
    assert [arm.name for arm in manifest.arms] == ["target-only", "ngram-k2", "ngram-k4"]


def test_a_line_with_commas_is_a_list() -> None:
    assert _names(_draft(num_speculative_tokens="2, 4,8")) == ["draft-k2", "draft-k4", "draft-k8"]
    assert _names(_draft(rejection_sampling="standard,block")) == ["draft-standard", "draft-block"]


def test_a_list_of_one_is_named_too() -> None:
    assert _names(_draft(num_speculative_tokens=[4])) == ["draft-k4"]


@pytest.mark.parametrize(
    ("arms", "field"),
    [
        ([_draft(num_speculative_tokens=[2, 99]), NGRAM], "arms[1].speculation.num_speculative_tokens"),
        ([_draft(num_speculative_tokens=[2, 4]), NGRAM | {"colour": 1}], "arms[2].colour"),
        ([_draft(num_speculative_tokens=[[2], 4])], "arms[1].speculation.num_speculative_tokens"),
        ([_draft(num_speculative_tokens=[2, 4]), _draft() | {"name": "draft-k4"}], "arms[2].name"),
    ],
)
def test_problems_are_told_once_in_the_fields_that_were_written(arms: list[Any], field: str) -> None:
    with pytest.raises(ManifestRefused) as refused:
        parse_manifest(manifest_document(arms=[BASELINE, *arms]))
    assert [p.field for p in refused.value.problems] == [field]


def test_too_many_arms_in_all_are_refused_with_the_bound() -> None:
    grids = [_draft(num_speculative_tokens=list(range(1, 17))) | {"name": f"d{i}"} for i in range(2)]
    with pytest.raises(ManifestRefused, match="32"):
        parse_manifest(manifest_document(arms=[BASELINE, *grids]))


def test_what_is_found_later_is_told_of_the_arm_that_was_written() -> None:
    grid = manifest_document(arms=[BASELINE, _draft(num_speculative_tokens=[2, 4]), NGRAM])
    problems = [FieldProblem(f"arms[{i}].speculation.method", "no", "no") for i in (1, 2, 3)]
    with pytest.raises(ManifestRefused) as refused, as_written(grid):
        raise ManifestRefused(*problems, FieldProblem("workloads[0].trace", "unknown", "upload it"))
    assert [p.field for p in refused.value.problems] == [
        "arms[1].speculation.method",
        "arms[2].speculation.method",
        "workloads[0].trace",
    ]
