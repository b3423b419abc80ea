from pathlib import Path

import pytest

from app.workloads.choices import Join, OnBadRow, Spread, Turns
from app.workloads.filling import PLACEHOLDER
from app.workloads.joining import BLOCKS, WHOLE
from app.workloads.readers.registry import FORMATS

PAGE = (Path(__file__).parents[2] / "docs" / "workloads.md").read_text()


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_every_format_has_its_row(name: str) -> None:
    assert f"| `{name}` |" in PAGE


@pytest.mark.parametrize("word", [*Join, *Spread, *Turns, OnBadRow.SKIP, PLACEHOLDER, WHOLE, BLOCKS])
def test_every_choice_is_explained(word: str) -> None:
    assert word in PAGE
