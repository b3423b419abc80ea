"""The word on sampled outputs, held to a target that is known: who is accused, who is caught, who cannot be told."""

import pytest
from scipy import stats

from app.domain.sampling_equality import HOTTER, SampledEquality, SamplingWord, judge_samples
from app.domain.sampling_tests import Sample, Samples, SamplingTestName, outcomes
from tests.domain.sampling_worlds import World

PROMPTS, EACH = 8, 48
WORLD = World()
STATED = WORLD.stated(PROMPTS)


@pytest.fixture(scope="module")
def target() -> Samples:
    return WORLD.samples(1, prompts=PROMPTS, each=EACH)


@pytest.fixture(scope="module")
def hotter() -> Samples:
    return WORLD.samples(2, prompts=PROMPTS, each=EACH, temperature=HOTTER)


def _judged(arm: Samples, target: Samples, hotter: Samples | None) -> SampledEquality:
    return judge_samples({"arm": arm}, target, hotter, STATED)[0]


def test_the_target_itself_passes(target: Samples, hotter: Samples) -> None:
    found = _judged(WORLD.samples(3, prompts=PROMPTS, each=EACH), target, hotter)
    assert found.word is SamplingWord.PASS
    assert found.temperature_low is not None
    assert found.temperature_high is not None
    assert found.temperature_low < 1 < found.temperature_high
    assert found.detectable_temperature is not None
    assert 1 < found.detectable_temperature < 1.05


def test_five_percent_hotter_is_caught(target: Samples, hotter: Samples) -> None:
    for seed in range(10, 14):
        found = _judged(WORLD.samples(seed, prompts=PROMPTS, each=EACH, temperature=1.05), target, hotter)
        assert found.word is SamplingWord.FAIL
        assert found.temperature_low is not None
        assert found.temperature_low > 1
        assert SamplingTestName.LIKELIHOOD_EXACT in {test.name for test in found.tests if test.rejected}


def test_argmax_taken_too_often_is_caught(target: Samples, hotter: Samples) -> None:
    for seed in range(20, 24):
        found = _judged(WORLD.samples(seed, prompts=PROMPTS, each=EACH, takes_top=0.06), target, hotter)
        assert found.word is SamplingWord.FAIL
        assert SamplingTestName.TOP_CHOICE_EXACT in {test.name for test in found.tests if test.rejected}


def test_a_token_more_at_the_second_place_is_caught_without_scores(target: Samples, hotter: Samples) -> None:
    """As where no target-only server scored anything: counts alone must do."""
    swapped = {
        prompt: [s._replace(token_ids=(s.token_ids[0], 5, *s.token_ids[2:]), fit=None) for s in given]
        for prompt, given in WORLD.samples(30, prompts=PROMPTS, each=EACH).items()
    }
    found = judge_samples({"arm": swapped}, _unscored(target), _unscored(hotter))[0]
    assert found.word is SamplingWord.FAIL
    assert {test.name for test in found.tests if test.rejected} == {SamplingTestName.TOKEN_PAIR}


def test_other_lengths_are_caught(target: Samples, hotter: Samples) -> None:
    cut = {
        prompt: [s._replace(token_ids=s.token_ids[:20], finish_reason="stop", fit=None) for s in given]
        for prompt, given in WORLD.samples(31, prompts=PROMPTS, each=EACH).items()
    }
    rejected = {test.name for test in _judged(cut, target, hotter).tests if test.rejected}
    assert {SamplingTestName.LENGTH, SamplingTestName.FINISH_REASON} <= rejected


def test_a_control_that_is_not_told_apart_leaves_no_pass(target: Samples) -> None:
    """With the control at the target's own temperature nothing has been shown."""
    found = _judged(WORLD.samples(3, prompts=PROMPTS, each=EACH), target, WORLD.samples(4, prompts=PROMPTS, each=EACH))
    assert found.word is SamplingWord.NOT_CHECKABLE
    assert "was not told apart" in found.reasons[0]


def test_without_a_control_there_is_no_pass(target: Samples) -> None:
    assert _judged(WORLD.samples(3, prompts=PROMPTS, each=EACH), target, None).word is SamplingWord.NOT_CHECKABLE


def test_too_few_samples(target: Samples, hotter: Samples) -> None:
    found = _judged(WORLD.samples(5, prompts=PROMPTS, each=30), target, hotter)
    assert found.word is SamplingWord.NOT_CHECKABLE
    assert "too few" in found.reasons[0]


def test_nothing_was_sampled(target: Samples, hotter: Samples) -> None:
    """An arm whose server never got there is not told to be right."""
    assert _judged({}, target, hotter).word is SamplingWord.NOT_CHECKABLE


def test_a_target_that_does_not_fit_itself_accuses_nobody(hotter: Samples) -> None:
    """Statements of another temperature than was sampled at: the exact tests are dropped, for the arm too."""
    target, arm = (WORLD.samples(seed, prompts=PROMPTS, each=EACH, temperature=1.2) for seed in (6, 7))
    found = judge_samples({"arm": arm}, target, WORLD.samples(8, prompts=PROMPTS, each=EACH, temperature=1.4), STATED)[
        0
    ]
    assert found.word is SamplingWord.PASS
    dropped = {test.name for test in found.tests if test.why is not None and "do not fit" in test.why}
    assert SamplingTestName.LIKELIHOOD_EXACT in dropped
    assert found.temperature_low is not None
    assert found.temperature_low < 1.02


def test_false_alarms_of_whole_experiments() -> None:
    """Two arms that are the target, 60 times at a family error of 10%, at which so few rounds say something.

    Holm accuses somebody exactly where the least p is below the error divided by the family.
    """
    world, alarms, rounds, level = World(9), 0, 60, 0.1 / (2 * len(SamplingTestName))
    for seed in range(rounds):
        first, second, target = (world.samples(1000 + 3 * seed + n, prompts=4, each=16, length=8) for n in range(3))
        found = [
            *outcomes(first, target, world.stated(4)).values(),
            *outcomes(second, target, world.stated(4)).values(),
        ]
        alarms += min(outcome.p for outcome in found if outcome.p is not None) < level
    assert stats.binomtest(alarms, rounds, 0.1, alternative="greater").pvalue > 1e-3


def _unscored(samples: Samples) -> dict[int, list[Sample]]:
    return {prompt: [sample._replace(fit=None) for sample in given] for prompt, given in samples.items()}
