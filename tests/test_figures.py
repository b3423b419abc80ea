"""Figures by value: they state the report's numbers, name their parts, and carry neither colours nor markup."""

import json
import re
from typing import Any

import pytest

from app.figures import FIGURES, describe, label
from tests.factories_report import METRICS, RATES, SPEEDUP, STRATA, sample_report


def drawn(name: str, **keywords: Any) -> dict[str, Any]:
    """The figure as the API serves it."""
    return json.loads(str(FIGURES[name](sample_report(**keywords)).to_json()))


def test_the_forest_states_each_verdicts_ratio_and_interval() -> None:
    report = sample_report()
    table = describe(FIGURES["speedup_by_condition"](report))
    stated = {(row[0], str(row[1]).split(" (")[0]): row[2:] for row in table.rows}
    assert len(stated) == len(SPEEDUP)
    for verdict in report.verdicts:
        assert verdict.ratio is not None
        value, low, high = stated[verdict.arm, f"{verdict.workload} · {verdict.load}"]
        assert value == verdict.ratio.value
        assert (low, high) == pytest.approx((verdict.ratio.low, verdict.ratio.high))


def test_the_forest_shows_the_margin_as_a_band_symmetric_in_the_log() -> None:
    shapes = {shape["name"]: shape for shape in drawn("speedup_by_condition")["layout"]["shapes"]}
    assert shapes["margin"]["x0"] * shapes["margin"]["x1"] == pytest.approx(1)
    assert shapes["margin"]["x1"] == 1.05
    assert shapes["unity"]["x0"] == shapes["unity"]["x1"] == 1


def test_an_invalid_verdict_has_no_point() -> None:
    arms = {row[0] for row in describe(FIGURES["speedup_by_condition"](sample_report(mismatches=2))).rows}
    assert arms == {"draft-k4"}


def test_strata_are_shown_once_each_and_never_all_together() -> None:
    table = describe(FIGURES["speedup_by_stratum"](sample_report()))
    strata = sum(len(names) - 1 for names in STRATA.values())
    assert len(table.rows) == strata * len(RATES) * 2
    assert not any(str(row[1]).endswith("· all") for row in table.rows)


def test_latency_runs_over_the_offered_rates_of_every_arm() -> None:
    rows = describe(FIGURES["latency_by_load"](sample_report())).rows
    p50 = [row for row in rows if row[:2] == ("target-only", "tasks · p50")]
    assert [(row[2], row[3]) for row in p50] == [(4.0, 320.0), (12.0, 540.0)]
    assert {row[0] for row in rows} == {"target-only", "ngram-k4", "draft-k4"}


def test_acceptance_starts_at_position_0_and_leaves_the_baseline_out() -> None:
    rows = describe(FIGURES["acceptance_by_position"](sample_report())).rows
    assert [row[2:4] for row in rows if row[:2] == ("ngram-k4", "tasks · low")] == [
        (0.0, 0.81),
        (1.0, 0.66),
        (2.0, 0.52),
        (3.0, 0.41),
    ]
    assert not any(row[0] == "target-only" for row in rows)


def test_throughput_has_a_panel_for_each_workload() -> None:
    rows = describe(FIGURES["throughput_by_load"](sample_report())).rows
    assert {row[1] for row in rows} == set(STRATA)
    assert len(rows) == len(STRATA) * len(RATES) * 3


@pytest.mark.parametrize("name", FIGURES)
def test_an_arm_keeps_its_slot_and_is_named_once_in_the_legend(name: str) -> None:
    traces = drawn(name)["data"]
    slots = {trace["meta"]["arm"]: trace["meta"]["slot"] for trace in traces}
    assert slots.items() <= {"target-only": 0, "ngram-k4": 1, "draft-k4": 2}.items()
    assert all(trace["meta"]["slot"] == slots[trace["meta"]["arm"]] for trace in traces)
    named = [trace["name"] for trace in traces if trace["showlegend"]]
    assert sorted(named) == sorted(slots)


@pytest.mark.parametrize("name", FIGURES)
def test_no_figure_names_a_colour(name: str) -> None:
    assert not re.search(r"#[0-9a-fA-F]{3,8}\b|rgba?\(|colou?r", json.dumps(drawn(name)))


@pytest.mark.parametrize("name", FIGURES)
def test_no_figure_invents_a_number_where_there_are_none(name: str) -> None:
    described = describe(FIGURES[name](sample_report(complete=0)))
    assert described.rows == ()
    assert described.caption


@pytest.mark.parametrize("name", FIGURES)
def test_axes_have_units_or_say_what_they_count(name: str) -> None:
    headers = describe(FIGURES[name](sample_report())).headers
    assert all(headers)
    assert len(headers) == len(set(headers))


def test_labels_are_text_never_markup() -> None:
    assert label("<b>bold</b> & <a href='x'>") == "&lt;b&gt;bold&lt;/b&gt; &amp; &lt;a href='x'&gt;"


def test_the_sample_report_compares_every_metric_it_names() -> None:
    assert {c.metric for c in sample_report().comparisons} == set(METRICS)
