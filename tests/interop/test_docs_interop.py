"""The two pages name what the code has."""

from pathlib import Path

import pytest

from app.interop.exports.as_csv import columns
from app.interop.exports.as_llmd import VERSION
from app.interop.exports.formats import FORMATS
from app.interop.exports.outline import Outline
from app.interop.imports import from_aiperf, from_guidellm, from_vllm
from app.interop.imports.result import NOT_CONTROLLED, Tool
from tests.interop.evidence import small_evidence

DOCS = Path(__file__).parent.parent.parent / "docs"
EXPORTS, IMPORTS = (DOCS / "exports.md").read_text(), (DOCS / "imports.md").read_text()


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_its_row(name: str) -> None:
    assert any(line.startswith(f"| `{name}` |") for line in EXPORTS.splitlines())


@pytest.mark.parametrize("column", [c for c in columns(Outline(small_evidence())) if not c.startswith("stratum_")])
def test_every_column_is_explained(column: str) -> None:
    assert f"`{column}`" in EXPORTS


def test_the_report_version_is_the_one_we_write() -> None:
    assert f"benchmark report {VERSION}" in EXPORTS


@pytest.mark.parametrize("version", [*from_aiperf.KNOWN, *map(str, from_guidellm.KNOWN)])
def test_every_known_version_is_named(version: str) -> None:
    assert version in IMPORTS


@pytest.mark.parametrize("tool", Tool)
def test_every_tool_has_its_row(tool: Tool) -> None:
    assert any(line.startswith(f"| {tool} |") for line in IMPORTS.splitlines())


def test_every_nearest_definition_is_in_the_table() -> None:
    told = [
        *(nearest for _, nearest in from_vllm.DEFINITIONS.values() if nearest not in {"lateness_ns", "e2e_ns"}),
        *(told[-1] for told in (*from_guidellm.SUMMARIES.values(), *from_aiperf.SUMMARIES.values())),
    ]
    assert all(f"`{nearest}`" in IMPORTS for nearest in told if nearest)
    assert NOT_CONTROLLED in IMPORTS
