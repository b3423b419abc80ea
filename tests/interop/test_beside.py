"""Imported figures beside ours: the right column, the right load, and never without their label."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.domain.report import build_report
from app.interop.beside import COLUMNS, Beside, imported_beside, imports_context
from app.interop.imports.reading import read_result
from app.interop.schemas import ImportRead
from app.pages.views import ENVIRONMENT
from tests.domain.evidence_factory import Dials, make_evidence, make_manifest

DATA = Path(__file__).parent.parent / "data" / "interop"
REPORT = build_report(make_evidence(Dials(manifest=make_manifest(blocks=2), requests=4)))
NOW = datetime(2026, 11, 30, tzinfo=UTC)


def stored(name: str = "vllm_bench_ngram.json", label: str = "host B") -> ImportRead:
    result = read_result((DATA / name).read_bytes(), label)
    return ImportRead(digest=result.source_sha256, experiment_id=None, created_at=NOW, result=result)


def beside(name: str) -> Beside:
    (only,) = imported_beside([stored(name)], REPORT)
    return only


def rendered(*imports: ImportRead) -> str:
    context = imports_context(imports, REPORT)
    experiment = SimpleNamespace(id=REPORT.experiment)
    return ENVIRONMENT.get_template("_imports.html").render(**context, report=REPORT, experiment=experiment)


def cells(name: str) -> dict[str, Any]:
    return {c.name: cell and (cell.name, cell.quantiles) for c, cell in zip(COLUMNS, beside(name).cells, strict=True)}


def test_vllms_figures_stand_under_our_nearest_definition() -> None:
    found = cells("vllm_bench_ngram.json")
    assert found["TTFT"] == ("ttft", (20.234426499655456, None, 321.5311804699104))
    assert found["ITL by chunk"] == ("itl", (6.316225999853486, None, 15.701706519989786))
    assert found["TPOT"][0] == "tpot"


def test_what_guidellm_and_aiperf_call_itl_stands_under_tpot() -> None:
    guidellm, aiperf = cells("guidellm_v2.json"), cells("aiperf_profile_export.json")
    assert (guidellm["TPOT"][0], guidellm["ITL by chunk"]) == ("itl", None)
    assert (aiperf["TPOT"][0], aiperf["ITL by chunk"][0]) == ("itl", "inter_chunk")


def test_seconds_become_milliseconds() -> None:
    assert cells("guidellm_v2.json")["E2E"][1][0] == pytest.approx(71.886, abs=1e-3)


@pytest.mark.parametrize(("rate", "load"), [(1.0, "low"), (1.3, "low"), (1.6, "high"), (1000.0, "high")])
def test_ours_are_of_the_load_that_is_nearest(rate: float, load: str) -> None:
    imported = stored()
    part = imported.result.parts[0].model_copy(update={"request_rate_rps": rate})
    result = imported.result.model_copy(update={"parts": (part,)})
    (only,) = imported_beside([imported.model_copy(update={"result": result})], REPORT)
    rows = only.ours
    assert {row.result.load for row in rows} == {load}
    assert {row.result.stratum for row in rows} == {"all"}
    assert {row.result.arm for row in rows} == {arm.name for arm in REPORT.manifest.arms}


def test_the_table_is_labelled_wherever_a_foreign_number_stands() -> None:
    text = rendered(stored(), stored("guidellm_v2.json"), stored("aiperf_profile_export.json"))
    assert text.count('<span class="note">not controlled</span>') == 3
    assert text.count("data-foreign") == 3
    assert "not controlled by Verdraft" in text
    assert "0.574" in text
    assert "GuideLLM does not read the server" in text


def test_a_label_is_text_and_nothing_else() -> None:
    text = rendered(stored(label="<script>alert(1)</script>"))
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_without_imports_there_is_no_section() -> None:
    assert rendered().strip() == ""


def test_the_links_to_the_exports_are_of_this_experiment() -> None:
    page = ENVIRONMENT.get_template("_exports.html").render(experiment=SimpleNamespace(id="e" * 64))
    assert page.count(f"/api/v1/experiments/{'e' * 64}/export/") == 6
