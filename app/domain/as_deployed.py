"""Each candidate against target-only as it would be deployed, condition by condition, as every other verdict.

Target-only in the settings that all arms share may be slower than what is served today; an arm is right only where it
also helps against that. Both arms' ratios of a block have the same target-only run, which cancels.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict

from app.domain.comparison import REQUEST_SPEEDUP, THROUGHPUT_RATIO, MetricComparison, by_block
from app.domain.finding import find, sharing
from app.domain.manifest import Manifest
from app.domain.paired import block_ratio, bonferroni
from app.domain.pairing import ALL, CompleteBlocks
from app.domain.statistics import Estimate
from app.domain.verdict import Verdict
from app.domain.verdict_words import WordAt, told
from app.domain.vocabulary import Regime, VerdictWord

_BARRED: Final = frozenset({VerdictWord.HURTS, VerdictWord.INVALID})


class AgainstDeployed(BaseModel):
    """One candidate's speed over one target-only as deployed, on one workload at one load."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    deployed: str
    workload: str
    load: str
    regime: Regime
    word: VerdictWord
    metric: str
    """Throughput where a queue grows in either, else request speed."""
    ratio: Estimate | None
    """Above 1 where the candidate is faster; ``None`` where either is INVALID there."""


def holds(found: Sequence[AgainstDeployed]) -> bool:
    """Whether it helps somewhere, hurts nowhere and is valid everywhere, against each; true where none was measured."""
    words: dict[str, set[VerdictWord]] = {}
    for one in found:
        words.setdefault(one.deployed, set()).add(one.word)
    return all(VerdictWord.HELPS in each and each.isdisjoint(_BARRED) for each in words.values())


def said(found: Sequence[AgainstDeployed]) -> str:
    """``against target-only as it would be deployed (plain) it helps on …``; empty where none was measured."""
    each = dict.fromkeys(one.deployed for one in found)
    return "; ".join(
        f"against target-only as it would be deployed ({name}) it "
        f"{told(WordAt(one.word, one.workload, one.load) for one in found if one.deployed == name)}"
        for name in each
    )


class _Pair(NamedTuple):
    """What is compared: a candidate, a target-only as deployed, and where."""

    arm: str
    deployed: str
    verdict: Verdict
    """The candidate's, of that workload and load."""


def against_deployed(
    manifest: Manifest,
    verdicts: Sequence[Verdict],
    comparisons: Sequence[MetricComparison],
    blocks: CompleteBlocks,
) -> dict[str, tuple[AgainstDeployed, ...]]:
    """Arm of the declared family → its comparisons, which are a family of their own at the declared error."""
    rows = {(c.arm, c.workload, c.load, c.metric): c for c in comparisons if c.stratum == ALL}
    words = {(v.arm, v.workload, v.load): v for v in verdicts}
    pairs = [*_pairs(manifest, verdicts)]
    invalid = [VerdictWord.INVALID in {p.verdict.word, _of_deployed(words, p).word} for p in pairs]
    metrics = [_metric(p.verdict, _of_deployed(words, p)) for p in pairs]
    logs = [
        () if broken else tuple(_differences(rows, pair, metric, blocks))
        for pair, metric, broken in zip(pairs, metrics, invalid, strict=True)
    ]
    margins = manifest.margins
    rule = {"delta": margins.delta, "confidence": margins.confidence}
    steps = sharing(logs, **rule, family=len(pairs))
    found: dict[str, list[AgainstDeployed]] = {arm.name: [] for arm in manifest.decided}
    for pair, metric, broken, own, step in zip(pairs, metrics, invalid, logs, steps, strict=True):
        found[pair.arm].append(
            AgainstDeployed(
                deployed=pair.deployed,
                workload=pair.verdict.workload,
                load=pair.verdict.load,
                regime=pair.verdict.regime,
                word=VerdictWord.INVALID if broken else find(own, **rule, family=step).word,
                metric=metric,
                ratio=None if broken else block_ratio(own, bonferroni(margins.confidence, len(pairs))),
            )
        )
    return {arm: tuple(of_arm) for arm, of_arm in found.items()}


def _pairs(manifest: Manifest, verdicts: Sequence[Verdict]) -> Iterator[_Pair]:
    for arm in manifest.decided:
        for deployed in (one.name for one in manifest.candidates if one.as_deployed):
            yield from (_Pair(arm.name, deployed, verdict) for verdict in verdicts if verdict.arm == arm.name)


def _of_deployed(words: Mapping[tuple[str, str, str], Verdict], pair: _Pair) -> Verdict:
    return words[pair.deployed, pair.verdict.workload, pair.verdict.load]


def _metric(*verdicts: Verdict) -> str:
    return THROUGHPUT_RATIO if THROUGHPUT_RATIO in {v.metric for v in verdicts} else REQUEST_SPEEDUP


def _differences(
    rows: Mapping[tuple[str, str, str, str], MetricComparison], pair: _Pair, metric: str, blocks: CompleteBlocks
) -> Iterator[float]:
    """One log-ratio a block; none at all where the two do not have the same blocks."""
    where = (pair.verdict.workload, pair.verdict.load, metric)
    ours, theirs = (by_block(rows[arm, *where], blocks) for arm in (pair.arm, pair.deployed))
    if ours.keys() == theirs.keys():
        yield from (ours[block] - theirs[block] for block in ours)
