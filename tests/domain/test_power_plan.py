import math

import pytest

from app.domain.paired import bonferroni
from app.domain.power import cautious, power_beyond, power_equivalent
from app.domain.power_plan import Noise, power_plan, seen_in
from app.domain.report import build_report
from app.domain.statistics import spread
from tests.domain.evidence_factory import Dials, make_evidence, make_manifest

KNOWN = Noise(sd=0.02, source="as given")
MARGIN = math.log1p(0.05)


def test_what_the_blocks_show_is_at_the_family_s_confidence() -> None:
    plan = power_plan(make_manifest(), KNOWN)
    assert plan.family == 2
    together = bonferroni(0.95, 2)
    for condition in plan.conditions:
        for at in condition.at:
            assert at.helps_from is not None
            found = power_beyond(math.log1p(at.helps_from), 0.02, 5, margin=MARGIN, confidence=together)
            assert found == pytest.approx(at.power, abs=1e-3)
        assert condition.equivalent_power == power_equivalent(MARGIN, 0.02, 5, confidence=together)


def test_the_blocks_asked_for_reach_the_power_and_one_less_does_not() -> None:
    together = bonferroni(0.95, 2)
    for at in power_plan(make_manifest(), KNOWN).conditions[0].at:
        needed = at.blocks_for_equivalence
        assert needed is not None
        assert power_equivalent(MARGIN, 0.02, needed, confidence=together) >= at.power
        assert power_equivalent(MARGIN, 0.02, needed - 1, confidence=together) < at.power


def test_one_block_shows_nothing_and_says_so() -> None:
    plan = power_plan(make_manifest(blocks=1), KNOWN)
    assert plan.conditions[0].at[0].detectable is None
    assert "one block can show nothing" in plan.sentences[0]


def test_noise_that_was_seen_is_planned_with_caution_and_by_condition() -> None:
    report = build_report(make_evidence(Dials(block_noise=0.03)))
    seen = seen_in(report.comparisons, "the past")
    assert seen.pooled is not None
    (low,) = [c for c in report.comparisons if c.primary and c.load == "low"]
    at_low = seen.by_condition["copy", "low"]
    assert (at_low.sd, at_low.freedom) == (pytest.approx(spread(low.log_ratios)), 4)
    plan = power_plan(make_manifest(), seen.pooled, seen.by_condition)
    assert plan.conditions[0].sd == pytest.approx(cautious(at_low.sd, 4))
    assert plan.conditions[0].sd > at_low.sd


def test_too_few_blocks_show_no_noise() -> None:
    report = build_report(make_evidence(Dials(blocks_run=2)))
    assert seen_in(report.comparisons, "the past").pooled is None


def test_the_words_name_what_is_promised() -> None:
    said = " ".join(power_plan(make_manifest(), KNOWN).sentences)
    assert "with 5 blocks and noise of 2.0% a gain of" in said
    assert "in all 2 comparisons of the family" in said
