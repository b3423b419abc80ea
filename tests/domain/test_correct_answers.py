"""Equivalent, worse, better or undecided: against scores whose truth is known, and at the declared rate of error."""

import random

import pytest
from scipy import stats

from app.domain.condition import Condition
from app.domain.correct_answers import CorrectAnswers, QualityWord, broken_by, correct_answers, notes_on
from app.domain.evidence import ExperimentEvidence
from app.domain.paired_shares import Difference, Paired, difference
from app.domain.pairing import complete_blocks
from app.domain.report import build_report
from app.domain.vocabulary import VerdictWord
from tests.domain.evidence_factory import Dials, make_evidence, replace_run
from tests.domain.test_goodput import scored_manifest

CONDITION = Condition("ngram", "copy", "low")


def evidence_with(
    right: dict[str, float], *, prompts: int = 100, seed: int = 1, **quality: object
) -> ExperimentEvidence:
    """Each arm answers each prompt correctly with its own probability, the same in every block, as greedy does."""
    rng = random.Random(seed)
    evidence = make_evidence(Dials(manifest=scored_manifest(**quality), requests=prompts))
    drawn = {o.request_id: rng.random() for run in evidence.runs for o in run.observations}
    runs = [
        run.model_copy(
            update={
                "scorer": "exact/1",
                "scores": {
                    name: float(drawn[name] < right[run.arm]) for name in (o.request_id for o in run.observations)
                },
            }
        )
        for run in evidence.runs
    ]
    return evidence.model_copy(update={"runs": tuple(runs)})


def judged(evidence: ExperimentEvidence) -> dict[tuple[str, str], CorrectAnswers]:
    rows = correct_answers(evidence, complete_blocks(evidence))
    return {(row.arm, row.stratum): row for row in rows}


def test_no_scorer_no_rows() -> None:
    evidence = make_evidence()
    assert correct_answers(evidence, complete_blocks(evidence)) == ()


@pytest.mark.parametrize(
    ("target", "arm", "word"),
    [(0.9, 0.9, "EQUIVALENT"), (0.9, 0.6, "WORSE"), (0.6, 0.9, "BETTER"), (0.9, 0.89, "INCONCLUSIVE")],
)
def test_words(target: float, arm: float, word: str) -> None:
    found = judged(evidence_with({"target-only": target, "ngram": arm}))["ngram", "all"]
    assert found.word == word
    assert found.scored == 1000
    assert found.difference is not None
    assert found.difference.n == 200, "a prompt over five blocks is one cluster"


def test_equal_answers_to_few_prompts_prove_little() -> None:
    found = judged(evidence_with({"target-only": 1, "ngram": 1}, prompts=10))["ngram", "all"]
    assert found.word is QualityWord.INCONCLUSIVE
    assert found.difference is not None
    assert found.difference.high == pytest.approx(1 - 0.025 ** (1 / 20))
    assert found.correct.low == pytest.approx(0.025 ** (1 / 20))


def test_the_margin_is_the_manifest_s() -> None:
    rights = {"target-only": 0.9, "ngram": 0.89}
    assert judged(evidence_with(rights, margin=0.1))["ngram", "all"].word is QualityWord.EQUIVALENT


def test_what_is_worse_breaks_the_verdict_and_what_is_undecided_is_said() -> None:
    worse = tuple(judged(evidence_with({"target-only": 0.9, "ngram": 0.6})).values())
    assert next(iter(broken_by(worse, CONDITION))).startswith(
        "answers are worse than target-only's: correct answers differ by -"
    )
    assert [*broken_by(worse, Condition("ngram", "other", "low"))] == []
    undecided = tuple(judged(evidence_with({"target-only": 0.9, "ngram": 0.89})).values())
    assert [*broken_by(undecided, CONDITION)] == []
    assert "undecided" in next(iter(notes_on(undecided, CONDITION)))


def test_a_declared_scorer_that_did_not_score_breaks_the_verdict() -> None:
    evidence = evidence_with({"target-only": 1, "ngram": 1})
    missing = replace_run(evidence, arm="target-only", block=1, load="high", scorer=None, scores={})
    row = judged(missing)["ngram", "all"]
    assert row.word is None
    assert [*broken_by([row], CONDITION)] == ["answers of 1 of 20 runs were not scored, although a scorer is declared"]
    mixed = replace_run(evidence, arm="ngram", block=1, load="high", scorer="exact/2")
    assert "several versions" in (judged(mixed)["ngram", "all"].flaw or "")
    loose = replace_run(evidence, arm="ngram", block=1, load="high", scorer="exact/1, without namespaces")
    assert judged(loose)["ngram", "all"].flaw is None


def test_strata_add_up_and_have_no_word() -> None:
    rows = judged(evidence_with({"target-only": 0.9, "ngram": 0.7}))
    parts = [row for (arm, stratum), row in rows.items() if arm == "ngram" and stratum != "all"]
    assert sum(row.right for row in parts) == rows["ngram", "all"].right
    assert {row.word for row in parts} == {None}


def _draw(rng: random.Random, n: int, lost: float, won: float) -> Difference:
    prompts: list[Paired] = []
    for _ in range(n):
        u = rng.random()
        prompts.append(Paired(0, 1, 1) if u < lost else Paired(1, 0, 1) if u < lost + won else Paired(1, 1, 1))
    found = difference(prompts)
    assert found is not None
    return found


def _misses(n: int, lost: float, won: float, *, draws: int = 150, confidence: float = 0.95) -> int:
    rng, truth = random.Random(n), won - lost
    limits = [_draw(rng, n, lost, won).at(confidence) for _ in range(draws)]
    return sum(not low <= truth <= high for low, high in limits)


@pytest.mark.parametrize(
    ("n", "lost", "won"), [(60, 0.05, 0.05), (150, 0.01, 0.01), (150, 0.1, 0.05), (2000, 0.02, 0.01)]
)
def test_limits_hold_at_the_declared_rate(n: int, lost: float, won: float) -> None:
    # 150 draws at 5%: more than 16 misses have a chance of 0.1%.
    assert _misses(n, lost, won) <= 16


def test_worse_is_never_found_where_a_sign_test_could_not() -> None:
    five = difference([Paired(0, 1, 1)] * 5 + [Paired(1, 1, 1)] * 95)
    six = difference([Paired(0, 1, 1)] * 6 + [Paired(1, 1, 1)] * 94)
    assert five is not None
    assert six is not None
    assert five.at().high > 0 > six.at().high
    assert stats.binomtest(6, 6).pvalue < 0.05 < stats.binomtest(5, 5).pvalue


def test_repeats_of_a_prompt_are_no_further_prompts() -> None:
    once = difference([Paired(0, 1, 1)] * 10 + [Paired(1, 1, 1)] * 40)
    often = difference([Paired(0, 5, 5)] * 10 + [Paired(5, 5, 5)] * 40)
    assert once is not None
    assert often is not None
    assert once.at() == pytest.approx(often.at())


def test_the_same_evidence_gives_the_same_limits() -> None:
    prompts = [Paired(0, 1, 1)] * 10 + [Paired(1, 1, 1)] * 40
    first, second = difference(prompts), difference(prompts)
    assert first is not None
    assert second is not None
    assert first.at(0.9) == second.at(0.9)
    assert difference([]) is None


def test_the_report_says_it_and_no_arm_that_answers_worse_helps() -> None:
    report = build_report(evidence_with({"target-only": 0.9, "ngram": 0.6}, prompts=40))
    assert {v.word for v in report.verdicts} == {VerdictWord.INVALID}
    assert any("answers are worse than target-only's" in reason for v in report.verdicts for reason in v.reasons)
    assert {row.word for row in report.correct_answers if row.stratum == "all"} == {None, QualityWord.WORSE}
    assert {row.arm for row in report.degenerate} == {"ngram"}
