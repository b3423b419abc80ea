"""What passes a gate: the table of words, and everything that never passes."""

import pytest

from app.domain.report import Report, build_report
from app.domain.requirement import Choice, GateResult, NoVerdict, Requirement, Unknown, judge_requirement
from app.domain.rests_on import against_experiment
from app.domain.vocabulary import Purpose, Regime, VerdictWord
from tests.domain.evidence_factory import Dials, make_evidence, make_manifest
from tests.factories_report import sample_report

REPORT = sample_report()
NGRAM_LOW = Choice(arm="ngram-k4", workload="tasks", load="low")
H, E, N, U, X = (
    VerdictWord.HELPS,
    VerdictWord.EQUIVALENT,
    VerdictWord.INCONCLUSIVE,
    VerdictWord.HURTS,
    VerdictWord.INVALID,
)


def with_word(word: VerdictWord, *, exploratory: bool = False) -> Report:
    verdicts = tuple(v.model_copy(update={"word": word, "exploratory": exploratory}) for v in REPORT.verdicts)
    return REPORT.model_copy(update={"verdicts": verdicts})


def held(report: Report, require: Requirement = Requirement.NOT_HURTS, choice: Choice | None = None) -> GateResult:
    return judge_requirement(report, require, choice or Choice())


@pytest.mark.parametrize(
    ("require", "passing"),
    [
        (Requirement.HELPS, {H}),
        (Requirement.EQUIVALENT_OR_BETTER, {H, E}),
        (Requirement.NOT_HURTS, {H, E, N}),
    ],
)
@pytest.mark.parametrize("word", list(VerdictWord))
def test_which_words_meet_which_requirement(require: Requirement, passing: set[VerdictWord], word: VerdictWord) -> None:
    result = held(with_word(word), require)
    assert result.met is (word in passing)
    assert result.exit_code == (0 if word in passing else 3)


def test_one_verdict_of_many_that_is_not_enough_fails_the_whole() -> None:
    assert held(REPORT, Requirement.HELPS, NGRAM_LOW).met
    result = held(REPORT, Requirement.HELPS, Choice(arm="ngram-k4"))
    assert not result.met
    assert [line.met for line in result.lines] == [True, True, False, False]


def test_what_has_expired_never_passes() -> None:
    other = make_manifest(runtime="vllm 0.33.0 sha256:" + "9" * 64)
    gone = against_experiment(REPORT.manifest, other, "1", "1")
    result = held(with_word(H).model_copy(update={"expiry": gone}))
    assert not result.met
    assert "EXPIRED" in result.sentence


def test_a_host_calibration_never_passes() -> None:
    manifest = REPORT.manifest.model_copy(update={"purpose": Purpose.HOST_CALIBRATION})
    assert not held(with_word(H).model_copy(update={"manifest": manifest})).met


def test_exploratory_words_pass_only_where_that_is_asked_for() -> None:
    report = with_word(H, exploratory=True)
    assert not held(report).met
    assert judge_requirement(report, Requirement.HELPS, Choice(), exploratory=True).met
    assert not judge_requirement(with_word(X, exploratory=True), Requirement.NOT_HURTS, Choice(), exploratory=True).met


def test_without_an_arm_only_those_that_are_decided_on_count() -> None:
    family = REPORT.manifest.family.model_copy(update={"comparisons": ("ngram-k4",)})
    manifest = REPORT.manifest.model_copy(update={"family": family})
    result = held(REPORT.model_copy(update={"manifest": manifest}))
    assert {line.arm for line in result.lines} == {"ngram-k4"}


def test_while_blocks_are_missing_there_is_no_verdict() -> None:
    with pytest.raises(NoVerdict, match="4 of 5 blocks"):
        held(sample_report(complete=4))


@pytest.mark.parametrize(
    ("choice", "option"),
    [
        (Choice(arm="nobody"), "--arm"),
        (Choice(workload="nothing"), "--workload"),
        (Choice(stratum="task=none"), "--stratum"),
        (Choice(workload="open", stratum="task=copy"), "--stratum"),
        (Choice(load="huge"), "--load"),
    ],
)
def test_a_choice_that_selects_nothing_is_refused_by_its_option(choice: Choice, option: str) -> None:
    with pytest.raises(Unknown, match=option):
        held(REPORT, choice=choice)


def test_a_regime_takes_its_loads() -> None:
    assert {line.load for line in held(REPORT, choice=Choice(regime=Regime.SERVING)).lines} == {"high"}


@pytest.mark.parametrize(("speedup", "word"), [(1.3, H), (1.0, E), (0.7, U)])
def test_a_stratum_has_its_own_word(speedup: float, word: VerdictWord) -> None:
    report = build_report(make_evidence(Dials(speedup={"low": speedup, "high": speedup})))
    result = held(report, Requirement.NOT_HURTS, Choice(stratum="task=a"))
    assert {line.stratum for line in result.lines} == {"task=a"}
    assert {line.word for line in result.lines} == {word}
    assert all(line.ratio is not None for line in result.lines)


def test_the_error_is_shared_with_every_stratum_that_could_have_been_picked() -> None:
    ratios = (1.10, 1.18, 1.14, 1.20, 1.16)
    comparisons = tuple(c.model_copy(update={"block_ratios": ratios}) for c in REPORT.comparisons)
    report = REPORT.model_copy(update={"comparisons": comparisons})
    alone = report.model_copy(update={"strata": dict.fromkeys(report.strata, ("task=copy",))})
    words = [
        held(one, choice=NGRAM_LOW.model_copy(update={"stratum": "task=copy"})).lines[0].word for one in (report, alone)
    ]
    assert words == [N, H]


def test_a_stratum_of_an_invalid_arm_is_invalid() -> None:
    report = sample_report(invalid_arm="ngram-k4")
    result = held(report, choice=Choice(arm="ngram-k4", stratum="task=copy"))
    assert {line.word for line in result.lines} == {X}


def test_a_baseline_tells_the_pins_and_the_words_that_changed_and_decides_nothing() -> None:
    older = REPORT.model_copy(
        update={"manifest": REPORT.manifest.model_copy(update={"runtime": "vllm 0.31.0 sha256:" + "8" * 64})}
    )
    older = older.model_copy(
        update={"verdicts": tuple(v.model_copy(update={"word": U}) for v in older.verdicts if v.arm == "ngram-k4")}
    )
    result = judge_requirement(REPORT, Requirement.HELPS, NGRAM_LOW, against=older)
    assert result.met
    assert result.against is not None
    assert [(pin.what, pin.was) for pin in result.against.pins] == [("engine", older.manifest.runtime)]
    assert result.lines[0].baseline_word is U
    assert result.lines[0].changed
    drafts = judge_requirement(REPORT, Requirement.HELPS, Choice(arm="draft-k4"), against=older)
    assert {line.baseline_word for line in drafts.lines} == {None}
