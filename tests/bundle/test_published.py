"""The bundles in the repository verify, and what the docs quote of them is what they say."""

import re
from functools import cache
from pathlib import Path

import pytest

from app.bundle.archive import root_of
from app.bundle.verifying import verify
from app.domain.report import ANALYSIS_VERSION, Report

ROOT = Path(__file__).resolve().parents[2]
BUNDLES = sorted((ROOT / "evidence").glob("*.tar.zst"))
GPU, MEMORY = ((ROOT / "docs" / name).read_text() for name in ("gpu.md", "memory.md"))


verified = cache(verify)


@pytest.fixture(scope="module")
def pair() -> Report:
    return Report.model_validate_json(verified(ROOT / "evidence" / "published-pair.tar.zst").report or b"")


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda b: b.name)
def test_it_verifies(bundle: Path) -> None:
    """Where it does not, its report is of another analysis: `verdraft reanalyse` makes one of now."""
    assert verified(bundle).problems == ()


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda b: b.name)
def test_its_page_names_its_root(bundle: Path) -> None:
    assert root_of(bundle) in GPU


def test_the_page_quotes_the_report(pair: Report) -> None:
    assert pair.analysis_version == ANALYSIS_VERSION
    assert f"analysis {ANALYSIS_VERSION}" in GPU
    clients = {"c1": "1 client", "c8": "8 clients"}
    acceptance = {
        (r.workload, r.load): r.acceptance_rate.value
        for r in pair.results
        if r.stratum == "all" and r.arm == "ngram-k4" and r.acceptance_rate.value is not None
    }
    for c in (c for c in pair.comparisons if c.primary):
        told = f"{c.ratio.value:.2f} [{c.simultaneous_low:.2f}, {c.simultaneous_high:.2f}]"
        row = f"| {c.workload}, {clients[c.load]} | {told} | {acceptance[c.workload, c.load]:.0%} |"
        assert row in GPU, row
    assert [(c.compared, c.mismatched) for c in pair.correctness] == [(64, 0)]
    whole = [answers for answers in pair.correct_answers if answers.stratum == "all"]
    right = {(a.arm, a.workload): f"{(a.correct.value or 0) * a.correct.n:.0f} of {a.correct.n}" for a in whole}
    each = {"copying": "32 of 32", "transformation": "17 of 32"}
    assert right == {(arm, workload): said for arm in ("target-only", "ngram-k4") for workload, said in each.items()}
    assert "Of the answers to copying\nall 32 are exactly right, of those to transformation 17 of 32" in GPU


def test_the_memory_page_quotes_the_report(pair: Report) -> None:
    parts = ("target weights", "KV cache, target", "graphs and workspaces", "allocator and driver reserve")
    for memory in pair.memory:
        sizes = {row.part.value: (row.size_bytes or 0) / 1e9 for row in memory.breakdown.rows}
        told = [
            *(sizes[part] for part in (*parts, "activations at peak")),
            (memory.breakdown.total_bytes or 0) / 1e9,
            sizes["not explained"],
        ]
        cells = " \\| ".join(re.escape(f"{value:.2f}") for value in told)
        assert re.search(rf"^\| {memory.arm.replace('-k4', ' k=4')} \| {cells} \|$", MEMORY, re.MULTILINE), told
