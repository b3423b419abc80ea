from collections.abc import Sequence

import pytest

from app.domain.brackets import Crossover, Knee, crossovers, knees
from app.domain.condition import Condition, expand
from app.domain.manifest import Manifest
from app.domain.report import build_report
from app.domain.verdict import Verdict
from app.domain.vocabulary import Regime, Saturation, VerdictWord
from tests.domain.evidence_factory import Dials, make_evidence, make_manifest

S, W = Saturation, VerdictWord
RATES = (1.0, 2.0, 4.0, 8.0)


def manifest() -> Manifest:
    loads = [
        {"name": f"r{rate:g}", "regime": "latency" if rate == 1 else "serving", "rate_rps": rate}
        for rate in reversed(RATES)
    ]
    return make_manifest(loads=loads)


def knee(*states: Saturation) -> Knee:
    seen = {f"r{rate:g}": state for rate, state in zip(RATES, states, strict=True)}
    known = {c: seen[c.load] for c in expand(manifest())}
    return next(k for k in knees(manifest(), known) if k.arm == "ngram")


def crossover(*words: VerdictWord) -> Crossover:
    (found,) = crossovers(manifest(), [_verdict(rate, word) for rate, word in zip(RATES, words, strict=True)])
    return found


def _verdict(rate: float, word: VerdictWord) -> Verdict:
    return Verdict.model_construct(
        arm="ngram", workload="copy", load=f"r{rate:g}", regime=Regime.SERVING, word=word, sentence="", reasons=()
    )


@pytest.mark.parametrize(
    ("states", "bracket"),
    [
        ((S.STABLE, S.STABLE, S.SATURATED, S.SATURATED), ("r2", "r4")),
        ((S.STABLE, S.SUSPECT, S.UNDECIDED, S.SATURATED), ("r1", "r8")),
        ((S.STABLE, S.STABLE, S.STABLE, S.STABLE), ("r8", None)),
        ((S.SATURATED, S.STABLE, S.SATURATED, S.SATURATED), (None, "r1")),
        ((S.UNDECIDED, S.UNDECIDED, S.UNDECIDED, S.UNDECIDED), (None, None)),
    ],
)
def test_the_knee_lies_between_the_last_stable_load_and_the_first_saturated_one(
    states: Sequence[Saturation], bracket: tuple[str | None, str | None]
) -> None:
    found = knee(*states)
    assert (found.last_stable, found.first_saturated) == bracket


def test_what_lies_between_widens_the_bracket_and_is_said_in_requests_per_second() -> None:
    assert "between 1 requests/s and 8 requests/s" in knee(S.STABLE, S.SUSPECT, S.UNDECIDED, S.SATURATED).sentence


@pytest.mark.parametrize(
    ("words", "bracket", "between", "said"),
    [
        ((W.HELPS, W.HELPS, W.HURTS, W.HURTS), ("r2", "r4"), (), "stops helping between 2 requests/s and 4"),
        ((W.HELPS, W.EQUIVALENT, W.INCONCLUSIVE, W.HURTS), ("r1", "r8"), ("r2", "r4"), "between 1 requests/s and 8"),
        ((W.HELPS, W.HELPS, W.HELPS, W.HELPS), ("r8", None), (), "the highest that was tested"),
        ((W.HELPS, W.EQUIVALENT, W.INVALID, W.EQUIVALENT), ("r1", None), ("r2", "r4", "r8"), "neither to help"),
        ((W.EQUIVALENT, W.HURTS, W.HURTS, W.HURTS), (None, "r2"), ("r1",), "hurts from 2 requests/s"),
        ((W.HURTS, W.HELPS, W.HURTS, W.HURTS), (None, "r1"), (), "no one load"),
        ((W.EQUIVALENT,) * 4, (None, None), ("r1", "r2", "r4", "r8"), "neither to help nor to hurt"),
    ],
)
def test_the_crossover_lies_between_helping_and_hurting(
    words: Sequence[VerdictWord], bracket: tuple[str | None, str | None], between: tuple[str, ...], said: str
) -> None:
    found = crossover(*words)
    assert (found.helps_to, found.hurts_from) == bracket
    assert found.between == between
    assert said in found.sentence


def test_the_report_has_both() -> None:
    report = build_report(make_evidence(Dials(speedup={"low": 1.5, "high": 0.6})))
    assert [(c.helps_to, c.hurts_from) for c in report.crossovers] == [("low", "high")]
    assert {k.arm for k in report.knees} == {"target-only", "ngram"}
    assert Condition("ngram", "copy", "low") in set(expand(report.manifest))
