"""The documents name what the code has."""

from pathlib import Path

import pytest

from app.domain.comparison import METRICS
from app.domain.report import ArmResult, DraftCost
from app.domain.run_summary import RunSummary
from app.domain.vocabulary import Saturation, VerdictWord

METRICS_PAGE = (Path(__file__).parent.parent / "docs" / "metrics.md").read_text()
LABELS = {"arm", "workload", "load", "stratum"}


@pytest.mark.parametrize("name", sorted(set(ArmResult.model_fields) - LABELS) + sorted(METRICS))
def test_every_metric_has_its_row(name: str) -> None:
    assert any(line.startswith(f"| `{name}` |") for line in METRICS_PAGE.splitlines())


@pytest.mark.parametrize("name", sorted(set(RunSummary.model_fields) | {"startup_s", "kv_cache_tokens"}))
def test_every_summary_field_is_named(name: str) -> None:
    assert name in RunSummary.model_fields or name in DraftCost.model_fields
    assert f"`{name}`" in METRICS_PAGE


@pytest.mark.parametrize("word", [w for w in (*VerdictWord, *Saturation) if w is not Saturation.STABLE])
def test_every_word_is_explained(word: str) -> None:
    assert f"`{word}`" in METRICS_PAGE
