"""Figures by value: drawing, table and report state the same numbers to the last digit; no colours, no markup."""

import csv
import io
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from app.domain.arm_memory import ArmMemory
from app.domain.brackets import Crossover, Knee
from app.domain.canonical import canonical_model
from app.domain.errors import NotFound
from app.domain.memory import MemoryBreakdown, MemoryPart, MemoryRow
from app.domain.report import Report, build_report
from app.domain.vocabulary import RateKind, Saturation
from app.figures import FIGURES, Figure, View
from app.figures.drawing import label, log_axis
from app.figures.figure import Metric
from app.figures.table import as_csv
from tests.domain.evidence_factory import make_evidence
from tests.factories_report import METRICS, RATES, SPEEDUP, STRATA, sample_report

WHOLE = View()
HOSTILE = '<b>x</b><a href="javascript:alert(1)">y</a>'
CANARIES = {"draft-k4": HOSTILE, "tasks": f"w{HOSTILE}", "task=copy": f"task={HOSTILE}", "low": f"l{HOSTILE}"}
GB = 10**9


def rich_report() -> Report:
    """The sample with servers' memory, a queue that grows at the high load, and a crossover."""
    report = sample_report()
    rows = ((MemoryPart.TARGET_WEIGHTS, 12 * GB), (MemoryPart.KV_CACHE_TARGET, 53 * GB), (MemoryPart.REMAINDER, GB))
    made = MemoryBreakdown(
        rows=(
            *(MemoryRow(part=part, size_bytes=size, source="chosen") for part, size in rows),
            MemoryRow(part=MemoryPart.GRAPHS, size_bytes=None, source="nothing tells"),
        ),
        total_bytes=66 * GB,
        total_source="chosen",
        capacity_bytes=80 * GB,
        kv_cache_tokens=None,
        max_concurrency=None,
    )
    memory = [
        ArmMemory(arm=a.name, block=0, breakdown=made, servers=1, spread_bytes=None, kv_cache_tokens_lost=None)
        for a in report.manifest.arms
    ]
    where: dict[str, Any] = {"arm": "draft-k4", "workload": "open", "kind": RateKind.OPEN_LOOP, "sentence": "chosen"}
    return report.model_copy(
        update={
            "memory": tuple(memory),
            "knees": (Knee(**where, last_stable="low", first_saturated="high"),),
            "crossovers": (Crossover(**where, helps_to="low", hurts_from="high", between=()),),
            "results": tuple(
                r.model_copy(update={"saturation": Saturation.SATURATED})
                if (r.arm, r.workload, r.load) == ("draft-k4", "open", "high")
                else r
                for r in report.results
            ),
        }
    )


def renamed(value: Any) -> Any:
    """Names that no manifest could have: the figures must not rely on the format alone."""
    if isinstance(value, BaseModel):
        return value.model_copy(update={name: renamed(getattr(value, name)) for name in type(value).model_fields})
    if isinstance(value, tuple):
        return tuple(map(renamed, value))
    if isinstance(value, dict):
        return {renamed(key): renamed(inner) for key, inner in value.items()}
    return CANARIES.get(value, value) if type(value) is str else value


REPORTS = {"sample": rich_report(), "built": build_report(make_evidence())}
EVERY = [(name, report) for report in REPORTS for name in FIGURES]


def drawing(figure: Figure) -> dict[str, Any]:
    """The figure as the API serves it."""
    return json.loads(str(figure.draw().to_json()))


def numbers(value: object) -> Iterator[float]:
    """Every number in a JSON value, but truth values."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from numbers(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from numbers(inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def stated(trace: dict[str, Any]) -> set[float]:
    """What a trace says, but its bars, which are differences."""
    return {*numbers([trace.get(part, ()) for part in ("x", "y", "z", "customdata")])}


@pytest.mark.parametrize(("name", "source"), EVERY)
def test_no_figure_has_a_number_that_the_report_lacks(name: str, source: str) -> None:
    report = REPORTS[source]
    known = {*numbers(json.loads(canonical_model(report)))} | {float(n) for n in range(12)}  # 12: places in a list
    figure = FIGURES[name](report, WHOLE)
    assert {*numbers(figure.rows)} <= known
    for trace in drawing(figure)["data"]:
        assert stated(trace) <= known


@pytest.mark.parametrize(("name", "source"), EVERY)
def test_a_drawing_has_only_numbers_of_its_table_and_bars_reach_its_intervals(name: str, source: str) -> None:
    figure = FIGURES[name](REPORTS[source], WHOLE)
    table = {*numbers(figure.rows)}
    for trace in drawing(figure)["data"]:
        assert stated(trace) <= table | {float(n) for n in range(12)}
        horizontal = trace.get("orientation") == "h"
        found = trace.get("error_x" if horizontal else "error_y") if trace["type"] == "scatter" else None
        bars: dict[str, Any] = found or {}
        for at, middle in enumerate(trace["x" if horizontal else "y"] if bars else ()):
            low, high = trace["customdata"][at][:2]
            assert bars["array"][at] == (None if high is None else high - middle)
            assert bars["arrayminus"][at] == (None if low is None else middle - low)


@pytest.mark.parametrize("name", FIGURES)
def test_a_drawing_leaves_out_nothing_that_has_a_place(name: str) -> None:
    figure = FIGURES[name](rich_report(), WHOLE)
    drawn = {number for trace in drawing(figure)["data"] for number in stated(trace)}
    aside = {"n", "foretold n", "blocks", "requests", "with a time", "of offered"}
    values = {
        number
        for row in figure.rows
        if row[1] not in {"in use at peak", "capacity"}  # a total, and a line
        for header, number in zip(figure.headers, row, strict=True)
        if isinstance(number, float) and header not in aside
    }
    assert values <= drawn


@pytest.mark.parametrize("name", FIGURES)
def test_the_csv_reads_back_to_the_same_numbers(name: str) -> None:
    figure = FIGURES[name](rich_report(), WHOLE)
    header, *lines = csv.reader(io.StringIO(as_csv(figure).decode(), newline=""))
    assert tuple(header) == figure.headers
    for line, row in zip(lines, figure.rows, strict=True):
        assert [c if isinstance(r, str) else (float(c) if c else None) for c, r in zip(line, row, strict=True)] == [
            *row
        ]


def test_no_cell_of_the_csv_is_a_formula() -> None:
    report = sample_report()
    verdicts = tuple(v.model_copy(update={"workload": '=HYPERLINK("x")'}) for v in report.verdicts)
    found = FIGURES["speedup_by_condition"](report.model_copy(update={"verdicts": verdicts}), WHOLE)
    cells = [cell for line in csv.reader(io.StringIO(as_csv(found).decode(), newline="")) for cell in line]
    assert any(cell.startswith("'=HYPERLINK") for cell in cells)
    assert not any(cell.startswith(("=", "+", "@")) for cell in cells)


@pytest.mark.parametrize("name", FIGURES)
def test_words_and_units_are_there(name: str) -> None:
    figure = FIGURES[name](rich_report(), WHOLE)
    assert figure.rows
    assert figure.title
    assert figure.caption.endswith(".")
    assert all(figure.headers)
    assert len(figure.headers) == len(set(figure.headers))
    assert all(len(row) == len(figure.headers) for row in figure.rows)
    titles = [a["text"] for a in drawing(figure)["layout"]["annotations"]]
    assert any(re.search(r"\((?:ms|bytes|tokens/s|requests/s|0-based|×.*|ms, log scale)\)$|^Block$", t) for t in titles)  # noqa: RUF001
    assert {"method", "source"} & {header.split()[-1] for header in figure.headers}


@pytest.mark.parametrize("name", FIGURES)
def test_an_arm_keeps_its_slot_and_is_named_once_in_the_legend(name: str) -> None:
    traces = [t for t in drawing(FIGURES[name](rich_report(), WHOLE))["data"] if "arm" in t["meta"]]
    slots = {"target-only": 0, "ngram-k4": 1, "draft-k4": 2}
    assert all(trace["meta"]["slot"] == slots[trace["meta"]["arm"]] for trace in traces)
    named = [trace["name"] for trace in traces if trace["showlegend"]]
    assert len(named) == len(set(named))


@pytest.mark.parametrize("name", FIGURES)
def test_no_figure_names_a_colour(name: str) -> None:
    assert not re.search(
        r"#[0-9a-fA-F]{3,8}\b|rgba?\(|colou?r", json.dumps(drawing(FIGURES[name](rich_report(), WHOLE)))
    )


@pytest.mark.parametrize("name", FIGURES)
def test_no_figure_invents_a_number_where_there_are_none(name: str) -> None:
    figure = FIGURES[name](sample_report(complete=0), WHOLE)
    assert figure.rows == ()
    assert [t for t in drawing(figure)["data"] if stated(t)] == []


@pytest.mark.parametrize("name", FIGURES)
def test_names_are_text_never_markup(name: str) -> None:
    report = renamed(rich_report())
    drawn = json.dumps(drawing(FIGURES[name](report, WHOLE)), ensure_ascii=False)
    shown = re.sub(r'"(?:arm|legendgroup|offsetgroup)": ?"(?:[^"\\]|\\.)*"', "", drawn)  # told to chart.js, never shown
    assert "<b>" not in shown
    assert "<a " not in shown
    assert "&lt;b&gt;" in shown
    assert label("<b>bold</b> & <a href='x'>") == "&lt;b&gt;bold&lt;/b&gt; &amp; &lt;a href='x'&gt;"


def test_the_forest_states_each_verdicts_ratio_and_interval_and_nothing_of_an_invalid_one() -> None:
    report = sample_report()
    rows = FIGURES["speedup_by_condition"](report, WHOLE).rows
    found = {row[:2]: row[3:6] for row in rows}
    assert len(found) == len(SPEEDUP)
    for v in report.verdicts:
        assert v.ratio is not None
        held = next(
            c for c in report.comparisons if c.primary and (c.arm, c.workload, c.load) == (v.arm, v.workload, v.load)
        )
        expected = (v.ratio.value, held.simultaneous_low, held.simultaneous_high)
        assert found[v.arm, f"{v.workload} · {v.load}"] == expected
    for name in ("speedup_by_condition", "speedup_by_load", "paired_blocks"):
        assert {row[0] for row in FIGURES[name](sample_report(mismatches=2), WHOLE).rows} == {"draft-k4"}


def test_the_margin_is_a_band_symmetric_in_the_log() -> None:
    shapes = {
        s["name"]: s for s in drawing(FIGURES["speedup_by_condition"](sample_report(), WHOLE))["layout"]["shapes"]
    }
    assert shapes["margin"]["x0"] * shapes["margin"]["x1"] == pytest.approx(1)
    assert shapes["margin"]["x1"] == 1.05
    assert shapes["unity"]["x0"] == shapes["unity"]["x1"] == 1


def test_the_rate_curve_has_the_interval_that_holds_for_all_verdicts() -> None:
    report = sample_report()
    rows = FIGURES["speedup_by_load"](report, WHOLE).rows
    primary = {(c.arm, c.workload, RATES[c.load]): c for c in report.comparisons if c.primary}
    assert len(rows) == len(primary)
    for arm, panel, rate, value, low, high, *_ in rows:
        c = primary[str(arm), str(panel), float(str(rate))]
        assert (value, low, high) == (c.ratio.value, c.simultaneous_low, c.simultaneous_high)


def test_growing_queues_are_shaded_and_hollow_and_crossings_are_outlined() -> None:
    for name in ("speedup_by_load", "latency_by_load", "throughput_by_load", "latency_throughput"):
        drawn = drawing(FIGURES[name](rich_report(), WHOLE))
        shapes = [s["name"] for s in drawn["layout"]["shapes"]]
        assert {"saturated", "crossover-2"} <= set(shapes), name
        hollow = {(t["meta"]["arm"], *t["meta"]["hollow"]) for t in drawn["data"] if "hollow" in t["meta"]}
        assert hollow == {("draft-k4", False, True)}, name
        plain = drawing(FIGURES[name](sample_report(), WHOLE))
        assert not {"saturated", "crossover-2"} & {s["name"] for s in plain["layout"].get("shapes", ())}


def test_every_block_is_a_point_and_says_which() -> None:
    report = sample_report()
    rows = FIGURES["paired_blocks"](report, WHOLE).rows
    for c in (c for c in report.comparisons if c.primary):
        here = {row[3]: row[4] for row in rows if row[:3] == (c.arm, c.workload, c.load)}
        assert here == {
            **{str(b + 1): r for b, r in zip(c.ratio_blocks, c.block_ratios, strict=True)},
            "mean": c.ratio.value,
        }


def test_distributions_say_how_many_failed() -> None:
    figure = FIGURES["latency_distribution"](sample_report(), WHOLE)
    assert "requests failed: they count as infinitely slow" in figure.caption
    last = {row[:4]: row for row in figure.rows}
    assert last["ngram-k4", "tasks", "high", "E2E (ms)"][5] == 598 / 600
    assert last["ngram-k4", "tasks", "high", "TPOT (ms)"][9:12] == (598, 598, 600)
    assert "No request failed" in FIGURES["latency_distribution"](sample_report(), View(load="low")).caption


def test_the_map_says_none_where_nothing_was_drafted() -> None:
    report = sample_report()
    results = tuple(
        r.model_copy(update={"acceptance_by_position": (), "acceptance_band": ()}) if r.stratum == "task=copy" else r
        for r in report.results
    )
    figure = FIGURES["acceptance_map"](report.model_copy(update={"results": results}), WHOLE)
    gone = [row for row in figure.rows if row[3] == "task=copy"]
    assert {row[4:9] for row in gone} == {(None, None, None, None, 0)}
    texts = [t for t in drawing(figure)["data"] if t["meta"]["role"] == "absent"]
    assert [set(t["text"]) for t in texts] == [{"none"}] * 2
    assert not any(row[0] == "target-only" for row in figure.rows)


def test_memory_stacks_to_the_total_and_draws_the_capacity_only_where_it_is_near() -> None:
    report = rich_report()
    drawn = drawing(FIGURES["memory_by_part"](report, WHOLE))
    assert sum(trace["x"][0] for trace in drawn["data"]) == report.memory[0].breakdown.total_bytes
    assert [s["x0"] for s in drawn["layout"]["shapes"] if s["name"] == "capacity"] == [80 * GB]
    far = report.memory[0].breakdown.model_copy(update={"capacity_bytes": 900 * GB})
    figure = FIGURES["memory_by_part"](
        report.model_copy(update={"memory": (report.memory[0].model_copy(update={"breakdown": far}),)}), WHOLE
    )
    assert "900.0 GB, lies beyond this axis" in figure.caption
    assert not drawing(figure)["layout"].get("shapes")


def test_a_view_narrows_what_is_drawn() -> None:
    report = rich_report()
    for name in FIGURES:
        rows = FIGURES[name](report, View(workload="tasks")).rows
        assert name == "memory_by_part" or not any("open" in str(cell).split(" · ") for row in rows for cell in row)
    low = FIGURES["paired_blocks"](report, View(load="low", metric=Metric.TPOT_SPEEDUP, stratum="task=copy"))
    assert {row[2] for row in low.rows} == {"low"}
    assert {row[-1] for row in low.rows} == {"tpot_speedup"}
    strata = FIGURES["speedup_by_stratum"](report, View(stratum="task=copy")).rows
    assert {row[1] for row in strata} == {"copy"}
    assert len(FIGURES["latency_by_load"](report, View(load="low")).rows) == len(STRATA) * len(RATES) * 2 * 3


def test_a_view_of_what_is_not_there_is_refused() -> None:
    with pytest.raises(NotFound):
        View(workload="nowhere").check(sample_report())
    assert (
        View(workload="tasks", load=None, metric=Metric.GOODPUT_RATIO).query == "?workload=tasks&metric=goodput_ratio"
    )
    assert WHOLE.query == ""


@pytest.mark.parametrize(("low", "high"), [(29.1, 40.2), (0.97, 1.04), (80, 700), (3, 50_000), (7, 7)])
def test_a_log_axis_has_whole_labels_inside_it(low: float, high: float) -> None:
    axis = log_axis((low, high))
    assert 2 <= len(axis["tickvals"]) <= 16
    assert all(10 ** axis["range"][0] <= tick <= 10 ** axis["range"][1] for tick in axis["tickvals"])
    assert [float(text) for text in axis["ticktext"]] == axis["tickvals"]


def test_the_sample_report_compares_every_metric_it_names() -> None:
    assert {c.metric for c in sample_report().comparisons} == set(METRICS)


def test_what_no_result_has_is_not_a_panel_and_the_words_say_why() -> None:
    report = REPORTS["sample"]
    gone = tuple(r.model_copy(update={"e2e_ms": {**r.e2e_ms, "p95": r.e2e_ms["p99"]}}) for r in report.results)
    silent = report.model_copy(update={"results": gone})
    for name in ("latency_by_load", "latency_throughput"):
        figure = FIGURES[name](silent, WHOLE)
        assert not any("p95" in str(cell) for row in figure.rows for cell in row)
        assert "No p95: it p99 needs 500" in figure.caption
        assert "No p" not in FIGURES[name](report, WHOLE).caption


def test_strata_that_the_engine_does_not_tell_apart_are_said_once() -> None:
    report = REPORTS["sample"]
    rows = tuple(
        r if r.stratum == "all" else r.model_copy(update={"acceptance_by_position": (), "acceptance_band": ()})
        for r in report.results
    )
    figure = FIGURES["acceptance_map"](report.model_copy(update={"results": rows}), WHOLE)
    assert figure.caption.endswith("this engine does not tell them apart.")
    assert {len(trace["y"]) for trace in drawing(figure)["data"]} == {len(RATES)}
    assert {row[3] for row in figure.rows if row[4] is None} == {s for strata in STRATA.values() for s in strata} - {
        "all"
    }


def test_nothing_foretold_says_why() -> None:
    report = REPORTS["sample"]
    none = next(e.foretold_request for e in report.explanations if e.foretold_request.value is None)
    explained = tuple(e.model_copy(update={"foretold_request": none}) for e in report.explanations)
    figure = FIGURES["foretold_speedup"](report.model_copy(update={"explanations": explained}), WHOLE)
    assert figure.caption.endswith("Nothing is foretold here: not observable: no histograms.")
