"""A proposer's k by running batch size, from arms that differ in k alone at several loads; 0 switches it off.

At each load the smallest k that HELPS and is not shown to be slower than the fastest; each k holds for the batch sizes
that were seen while it was measured. Between two loads nothing is known: the bracket is given the smaller k.
What is proposed was not measured as a schedule: it is an arm for the next experiment.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from statistics import mean
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict

from app.domain.batch_sizes import Batches, batches
from app.domain.comparison import MetricComparison, by_block
from app.domain.condition import Condition
from app.domain.engine_version import BATCH_SCHEDULE_SEEN_FROM, parse_engine_version, version_of_runtime
from app.domain.evidence import ExperimentEvidence
from app.domain.load import LoadPoint
from app.domain.manifest import Arm, Manifest
from app.domain.paired import block_ratio, bonferroni
from app.domain.pairing import CompleteBlocks
from app.domain.preflight.methods import FIXED_LENGTH
from app.domain.startup import ConfigSource
from app.domain.verdict import Verdict
from app.domain.verdict_words import VERBS
from app.domain.vocabulary import BASELINE_ARM, VerdictWord

KEY: Final = "num_speculative_tokens_per_batch_size"
"""vLLM's: ``[[first, last, k], …]``, by the requests scheduled in a step, prompts included."""
LOADS_MIN: Final = 2


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class KAtLoad(_Frozen):
    """What one load says; ``k`` is ``None`` where its words do not decide."""

    load: str
    offered: str
    batch_low: int | None
    """The middle 80% of running requests as sampled, over target-only and the proposer's arms."""
    batch_high: int | None
    k: int | None
    why: str


class KBracket(_Frozen):
    """Above ``above`` and below ``below`` no batch was seen at which k was decided."""

    above: int
    below: int
    k_below: int
    k_above: int


class KSchedule(_Frozen):
    """One proposer on one workload. ``ranges`` are empty where no schedule can be given; the sentence says why."""

    arms: tuple[str, ...]
    workload: str
    at: tuple[KAtLoad, ...]
    ranges: tuple[tuple[int, int, int], ...]
    """First and last batch size, and k."""
    brackets: tuple[KBracket, ...]
    speculation: str
    """The ``speculation`` of an arm that would measure it, as JSON; empty without ranges."""
    sentence: str


class _Known(NamedTuple):
    """What every proposer is judged by."""

    evidence: ExperimentEvidence
    blocks: CompleteBlocks
    words: Mapping[Condition, VerdictWord]
    log_ratios: Mapping[Condition, Mapping[int, float]]
    """By block; empty where a block has none."""
    speed: Mapping[Condition, float]
    """The mean log-ratio of the blocks that have one."""

    @property
    def manifest(self) -> Manifest:
        return self.evidence.manifest


def k_schedules(
    evidence: ExperimentEvidence,
    blocks: CompleteBlocks,
    verdicts: Sequence[Verdict],
    comparisons: Sequence[MetricComparison],
) -> tuple[KSchedule, ...]:
    """One for each proposer that is decided on and each workload."""
    known = _Known(
        evidence,
        blocks,
        {Condition(v.arm, v.workload, v.load): v.word for v in verdicts},
        {Condition(c.arm, c.workload, c.load): by_block(c, blocks) for c in comparisons if c.primary},
        {Condition(c.arm, c.workload, c.load): mean(c.log_ratios) for c in comparisons if c.primary and c.log_ratios},
    )
    return tuple(
        _schedule(known, arms, workload.name)
        for arms in _proposers(evidence.manifest)
        for workload in evidence.manifest.workloads
    )


def _proposers(manifest: Manifest) -> Iterator[tuple[Arm, ...]]:
    """Arms that differ in k alone, smallest k first; those that have a schedule of their own are left out."""
    groups: dict[str, list[Arm]] = {}
    for arm in manifest.decided:
        if arm.speculates and arm.speculation.num_speculative_tokens_per_batch_size is None:
            alike = arm.speculation.model_copy(update={"num_speculative_tokens": None})
            groups.setdefault(f"{arm.draft_or_speculator} {alike.model_dump_json()}", []).append(arm)
    return (tuple(sorted(arms, key=lambda arm: arm.k or 0)) for arms in groups.values())


def _schedule(known: _Known, arms: Sequence[Arm], workload: str) -> KSchedule:
    bad = {c.arm for c, word in known.words.items() if word is VerdictWord.INVALID and c.workload == workload}
    usable = [arm for arm in arms if arm.name not in bad]
    at = [_at_load(known, usable, workload, load) for load in known.manifest.loads]
    at = sorted(at, key=lambda point: (point.batch_low is None, point.batch_low or 0, point.batch_high or 0))
    decided = [point for point in at if point.k is not None and point.batch_low is not None]
    why = "" if usable else "every arm of it is INVALID"
    why = why or _lacking(known, arms) or _not_to_be_given(known.manifest, decided)
    ranges = () if why else tuple(_ranges(decided, known.manifest.serving.max_num_seqs))
    brackets = () if why else tuple(_brackets(decided))
    where = f"{', '.join(arm.name for arm in arms)} on {workload}"
    return KSchedule(
        arms=tuple(arm.name for arm in arms),
        workload=workload,
        at=tuple(at),
        ranges=ranges,
        brackets=brackets,
        speculation=_speculation(usable[-1], ranges) if ranges else "",
        sentence=f"{where}: {f'no schedule of k by batch size: {why}' if why else _said(ranges, brackets)}.",
    )


def _at_load(known: _Known, arms: Sequence[Arm], workload: str, load: LoadPoint) -> KAtLoad:
    names = (BASELINE_ARM, *(arm.name for arm in arms))
    seen: Batches | None = batches(known.blocks, [Condition(name, workload, load.name) for name in names])
    k, why = _best(known, arms, workload, load.name)
    return KAtLoad(
        load=load.name,
        offered=load.offered,
        batch_low=seen.low if seen else None,
        batch_high=seen.high if seen else None,
        k=k,
        why=why if seen else f"{why}; the running requests were not sampled often enough",
    )


def _best(known: _Known, arms: Sequence[Arm], workload: str, load: str) -> tuple[int | None, str]:
    """The smallest k among the helping ones that the fastest is not shown to beat; 0 where none can be said to help."""
    words = {arm.name: known.words.get(Condition(arm.name, workload, load)) for arm in arms}
    helping = [arm for arm in arms if words[arm.name] is VerdictWord.HELPS]
    if not helping:
        useless = {VerdictWord.HURTS, VerdictWord.EQUIVALENT}
        said = ", ".join(f"{name} {VERBS[word]}" for name, word in words.items() if word is not None)
        if words and set(words.values()) <= useless:
            return 0, said
        return None, f"no k is shown to be right: {said or 'no arm of it is valid'}"
    ratios = {arm.name: known.log_ratios[Condition(arm.name, workload, load)] for arm in helping}
    fastest = max(helping, key=lambda arm: known.speed[Condition(arm.name, workload, load)])
    confidence = bonferroni(known.manifest.margins.confidence, (len(arms) - 1) * len(known.manifest.loads))
    for arm in helping:
        mine, best = ratios[arm.name], ratios[fastest.name]
        differences = [mine[block] - best[block] for block in mine] if mine.keys() == best.keys() else []
        against = block_ratio(differences, confidence)
        if arm is fastest or (against.high is not None and against.high >= 1):
            lighter = "" if arm is fastest else f", and is not shown to be slower than {fastest.name}"
            return arm.k, f"{arm.name} helps{lighter}"
    return fastest.k, f"{fastest.name} helps"


def _lacking(known: _Known, arms: Sequence[Arm]) -> str:
    """Why the runtime or the method takes no schedule; empty where they do."""
    method = arms[0].speculation.method
    if method in FIXED_LENGTH:
        return f"the {method} proposer asserts one length for every step"
    names = {arm.name for arm in arms}
    sessions = [s for s in known.evidence.sessions if s.arm in names and s.resolved_config]
    if any(f"speculative_config.{KEY}" in s.resolved_config for s in sessions):
        return ""
    version = version_of_runtime(known.manifest.runtime)
    if any(s.config_source is ConfigSource.SERVER_INFO for s in sessions):
        return f"the resolved configuration of vLLM {version} has no {KEY}"
    if parse_engine_version(version) < BATCH_SCHEDULE_SEEN_FROM:
        return f"it is not known whether vLLM {version} takes {KEY}; {BATCH_SCHEDULE_SEEN_FROM} does"
    return ""


def _not_to_be_given(manifest: Manifest, decided: Sequence[KAtLoad]) -> str:
    """Why the loads do not make a schedule; empty where they do."""
    if len(manifest.loads) < LOADS_MIN:
        return "one load was measured, and a schedule needs at least two"
    if len(decided) < LOADS_MIN:
        return f"k is decided and the batch size known at {len(decided)} of {len(manifest.loads)} loads"
    best = {point.k for point in decided}
    if len(best) == 1:
        (k,) = best
        top = f"{decided[-1].offered}, batches to {decided[-1].batch_high}"
        one = "switched off" if k == 0 else f"k = {k}"
        return f"{one} is right at every decided load (to {top}), so that no load brackets a change"
    for a, b in combinations(decided, 2):  # one load's batches may reach beyond the next load's
        if a.k != b.k and (a.batch_high or 0) >= (b.batch_low or 0):
            return (
                f"k = {a.k} is right at {a.offered} and k = {b.k} at {b.offered}, but their batch sizes overlap "
                f"({a.batch_low} to {a.batch_high}, {b.batch_low} to {b.batch_high})"
            )
    return ""


def _brackets(decided: Sequence[KAtLoad]) -> Iterator[KBracket]:
    seen_to = 0
    for a, b in pairwise(decided):
        seen_to = max(seen_to, a.batch_high or 0)
        if a.k != b.k and None not in {a.k, b.k, a.batch_high, b.batch_low}:
            yield KBracket(above=seen_to, below=b.batch_low or 0, k_below=a.k or 0, k_above=b.k or 0)


def _ranges(decided: Sequence[KAtLoad], largest: int) -> Iterator[tuple[int, int, int]]:
    """Without a gap from 1 on, as the engine asks; the last goes on to ``max_num_seqs``, as the engine would."""
    first, k = 1, decided[0].k or 0
    for bracket in _brackets(decided):
        last = bracket.above if bracket.k_above < k else bracket.below - 1
        yield first, last, k
        first, k = last + 1, bracket.k_above
    yield first, max(first, largest), k


def _speculation(arm: Arm, ranges: Sequence[tuple[int, int, int]]) -> str:
    stated = arm.speculation.model_dump(mode="json", exclude_none=True)
    return json.dumps({**stated, "num_speculative_tokens": max(k for *_, k in ranges), KEY: [list(r) for r in ranges]})


def _said(ranges: Sequence[tuple[int, int, int]], brackets: Sequence[KBracket]) -> str:
    steps = "; ".join(f"batch {a} to {b}: {f'k = {k}' if k else 'off'}" for a, b, k in ranges)
    unknown = ", ".join(f"between {b.above} and {b.below}" for b in brackets)
    return (
        f"{steps}. The change lies {unknown}, where nothing was measured and the smaller k is taken. Not measured as a "
        f"schedule: its arm belongs into the next experiment"
    )
