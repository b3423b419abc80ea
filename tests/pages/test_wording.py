"""How numbers are written, where intervals lie, and what never reaches a page."""

import pytest

from app.domain.comparison import METRICS
from app.domain.errors import NotFound
from app.domain.report import Estimate
from app.figures.figure import Metric
from app.pages.compare import CompareQuery
from app.pages.forest import axis_for
from app.pages.views import ENVIRONMENT
from app.pages.wording import (
    METRIC_WORDS,
    TIMES,
    UNKNOWN,
    chance,
    duration,
    first_sentence,
    interval,
    number,
    printable,
    quantity,
)
from tests.factories_report import estimate, sample_report


@pytest.mark.parametrize(
    ("value", "written"),
    [(None, UNKNOWN), (0, "0"), (0.0312, "0.031"), (1.5, "1.50"), (31.24, "31.2"), (540.4, "540"), (12345.6, "12,346")],
)
def test_numbers_have_about_three_digits(value: float | None, written: str) -> None:
    assert number(value) == written


@pytest.mark.parametrize(
    ("value", "unit", "written"),
    [
        (1.315, "ratio", f"1.31{TIMES}"),
        (0.812, "share", "81.2%"),
        (0.9995, "share", "99.95%"),
        (1.0, "share", "100.0%"),
    ],
)
def test_a_quantity_is_written_as_its_unit_asks(value: float, unit: str, written: str) -> None:
    assert quantity(value, unit) == written


def test_an_interval_that_is_not_known_is_not_written() -> None:
    assert interval(estimate(1.2, "ratio", width=None)) == ""
    assert (
        interval(Estimate(value=1.2, low=1.1, high=1.3, n=5, unit="ratio", source="x")) == f"[1.10{TIMES}, 1.30{TIMES}]"
    )


def test_a_small_p_is_never_zero() -> None:
    assert chance(0.00001) == "<0.001"
    assert chance(0.004) == "0.004"


@pytest.mark.parametrize(("seconds", "words"), [(8, "8 s"), (250, "4 min 10 s"), (3900, "1 h 05 min"), (None, UNKNOWN)])
def test_durations_are_said_in_words(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words


def test_terminal_sequences_and_direction_marks_are_stripped() -> None:
    assert printable("\x1b[31mred\x1b[0m\x1b]0;title\x07 a\x00b\x9bc\u202ed\tok\r\n") == "red abcd\tok\n"


def test_the_axis_is_symmetric_and_holds_every_value() -> None:
    axis = axis_for([estimate(2.0, "ratio", width=1.1), estimate(0.8, "ratio", width=50.0), None], 0.05)
    assert axis.place(1.0) == 50
    assert axis.low * axis.high == pytest.approx(1)
    assert 50 < axis.place(2.0) < 100
    strip = axis.strip(estimate(0.8, "ratio", width=50.0))
    assert strip.span == (0, 100)  # an interval wider than the axis is held at its edges


def test_an_unknown_ratio_is_not_drawn() -> None:
    strip = axis_for([], 0.05).strip(estimate(None, "ratio", width=None))
    assert strip.value is None
    assert strip.span is None


def test_every_metric_of_the_analysis_can_be_chosen_and_has_words() -> None:
    assert {str(m) for m in Metric} == set(METRICS) == set(METRIC_WORDS)


def test_the_canonical_address_leaves_out_what_is_default() -> None:
    assert CompareQuery().address("/x") == "/x"
    query = CompareQuery.model_validate({"metric": "tpot_speedup", "load": "low", "workload": "tasks", "stratum": ""})
    assert query.address("/x") == "/x?workload=tasks&load=low&metric=tpot_speedup"


def test_a_part_that_the_report_lacks_is_named_with_those_it_has() -> None:
    with pytest.raises(NotFound, match=r"load: mid is not in this experiment \(choose one of low, high\)"):
        CompareQuery(load="mid").check(sample_report())


@pytest.mark.parametrize(
    ("text", "first", "rest"),
    [
        ("Deploy a: it helps. It costs 1.5 s.", "Deploy a: it helps.", "It costs 1.5 s."),
        ("Keep target-only.", "Keep target-only.", ""),
        ("Confirm a: it helps; but it was picked. Then more.", "Confirm a: it helps.", "But it was picked. Then more."),
    ],
)
def test_a_headline_is_the_claim_and_the_rest_follows(text: str, first: str, rest: str) -> None:
    assert first_sentence(text) == (first, rest)


def test_no_page_puts_out_control_characters_whoever_wrote_them() -> None:
    shown = ENVIRONMENT.from_string("<p title='{{ text }}'>{{ text }}{{ 1 }}</p>").render(
        text="a\x1b[31mb\u202ec<i>\nd"
    )
    assert shown == "<p title='abc&lt;i&gt;\nd'>abc&lt;i&gt;\nd1</p>"
