"""What another k, or another choice of arm, would have given: from the accepted runs that were recorded.

A shorter draft of the same proposer begins with the same tokens, so that a recorded sequence of accepted runs says how
many steps it would have taken. A longer one is not told by what was recorded. Each foretelling is checked on blocks
that it was not made from.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict

from app.domain.acceptance import decode_steps, emitted_after_first
from app.domain.condition import Condition
from app.domain.evidence import RunEvidence
from app.domain.latency import e2e_ns
from app.domain.manifest import Arm, Manifest
from app.domain.observation import RequestObservation, SpeculationCounts
from app.domain.paired import block_ratio
from app.domain.pairing import CompleteBlocks
from app.domain.statistics import Estimate
from app.domain.vocabulary import BASELINE_ARM, Method, Outcome

PREFIX_STABLE: Final = frozenset({Method.NGRAM, Method.DRAFT_MODEL, Method.EAGLE, Method.MEDUSA, Method.MTP})
"""Proposers whose shorter draft is the beginning of their longer one."""
TOO_FEW: Final = "at least two complete blocks are needed: the choice is made on the others"


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CounterfactualK(_Frozen):
    """One shorter draft of one arm on one workload and load."""

    arm: str
    workload: str
    load: str
    k: int
    tokens_per_step_low: float
    """If no draft had guessed the target's own token after a run that was accepted whole."""
    tokens_per_step_high: float
    """If every draft had."""
    step_cost: float | None
    """Over target-only's step: the arm's own extra cost in proportion to k, which supposes that it grows evenly."""
    decode_speedup_low: float | None
    decode_speedup_high: float | None
    checked_by: str | None
    """The arm of the same proposer that really had this k."""
    measured_tokens_per_step: float | None
    """That arm's, in the blocks that the foretelling was not made from."""


class Headroom(_Frozen):
    """What choosing an arm for each request would give over target-only, chosen on the other blocks."""

    workload: str
    load: str
    best_arm: Estimate
    """One arm for all requests."""
    per_request: Estimate
    """An arm for each request: the most that a perfect router could have."""


def counterfactuals(
    manifest: Manifest, blocks: CompleteBlocks, condition: Condition, step_cost: float | None
) -> Iterator[CounterfactualK]:
    """Every k from 1 to the arm's own; nothing where its counts or its proposer do not tell."""
    arm = next(a for a in manifest.arms if a.name == condition.arm)
    own = arm.speculation.num_speculative_tokens or 0
    runs = blocks.of(condition)
    made_from, checked_on = runs[::2], {run.block for run in runs[1::2]}
    if arm.speculation.method not in PREFIX_STABLE or not _tells(runs):
        return
    for k in range(1, own + 1):
        low, high = (foretold_tokens_per_step(made_from, own, k, guessed=guessed) for guessed in (False, True))
        cost = None if step_cost is None else 1 + (step_cost - 1) * k / own
        checker = _same_proposer(manifest, arm, k)
        yield CounterfactualK(
            arm=condition.arm,
            workload=condition.workload,
            load=condition.load,
            k=k,
            tokens_per_step_low=low,
            tokens_per_step_high=high,
            step_cost=cost,
            decode_speedup_low=low / cost if cost else None,
            decode_speedup_high=high / cost if cost else None,
            checked_by=checker,
            measured_tokens_per_step=None if checker is None else _held_out(blocks, condition, checker, checked_on),
        )


def steps_with(told: SpeculationCounts, own: int, k: int, *, guessed: bool) -> int:
    """How many drafting steps the recorded accepted runs would have taken with ``k`` of ``own`` drafted tokens.

    A token that was rejected (or not drafted) ends a run. What follows a run that was accepted whole is the target's
    own token: whether a draft would have ``guessed`` it was never seen, and with ``k == own`` it does not matter.
    """
    steps = good = 0
    for accepted in told.per_step_accepted:
        good += accepted
        if guessed and accepted >= own:
            good += 1
            continue
        steps += good // (k + 1) + 1
        good = 0
    return steps - (-good // (k + 1))


def foretold_tokens_per_step(runs: Sequence[RunEvidence], own: int, k: int, *, guessed: bool) -> float:
    """Tokens after the first over target steps, steps without a draft staying as they were."""
    emitted = steps = 0
    for observation in _served(runs):
        emitted += emitted_after_first(observation)
        steps += decode_steps(observation)
        if told := observation.speculation:
            steps += steps_with(told, own, k, guessed=guessed) - told.num_spec_steps
    return emitted / steps if steps else 1.0


def headroom(manifest: Manifest, blocks: CompleteBlocks, workload: str, load: str) -> Headroom:
    """Each block's requests are served by the arm that was fastest for them in the other blocks."""
    times = {arm.name: _times(blocks, Condition(arm.name, workload, load)) for arm in manifest.arms}
    common = sorted(set.intersection(*(set(by_block) for by_block in times.values())))
    single, routed = list[float](), list[float]()
    for block in common if len(common) > 1 else ():
        others = [b for b in common if b != block]
        served = frozenset.intersection(*(frozenset(times[arm][b]) for arm in times for b in common))
        if served:
            baseline = _total(times[BASELINE_ARM][block], served)
            chosen = {request: _fastest(times, others, frozenset({request})) for request in served}
            single.append(baseline / _total(times[_fastest(times, others, served)][block], served))
            routed.append(baseline / sum(times[arm][block][request] for request, arm in chosen.items()))
    return Headroom(workload=workload, load=load, best_arm=_speedup(single), per_request=_speedup(routed))


Times = Mapping[str, Mapping[int, Mapping[str, int]]]
"""Arm → block → request → end-to-end time, ns."""


def _times(blocks: CompleteBlocks, condition: Condition) -> dict[int, dict[str, int]]:
    return {
        run.block: {o.request_id: ns for o in _served([run]) if (ns := e2e_ns(o)) is not None}
        for run in blocks.of(condition)
    }


def _fastest(times: Times, others: Sequence[int], requests: frozenset[str]) -> str:
    return min(times, key=lambda arm: sum(_total(times[arm][block], requests) for block in others))


def _total(times: Mapping[str, int], requests: frozenset[str]) -> int:
    return sum(times[request] for request in requests)


def _speedup(ratios: Sequence[float]) -> Estimate:
    if not ratios:
        return Estimate(value=None, n=0, unit="ratio", source="leave one block out", why=TOO_FEW)
    return block_ratio([math.log(ratio) for ratio in ratios])


def _served(runs: Sequence[RunEvidence]) -> Iterator[RequestObservation]:
    return (o for run in runs for o in run.observations if o.outcome is Outcome.SUCCESS)


def _tells(runs: Sequence[RunEvidence]) -> bool:
    told = [o.speculation for o in _served(runs) if o.speculation and o.speculation.num_spec_steps]
    return bool(told) and all(len(s.per_step_accepted) == s.num_spec_steps for s in told)


def _same_proposer(manifest: Manifest, arm: Arm, k: int) -> str | None:
    """An arm that differs in nothing but k; it may be the arm itself."""
    wanted = arm.speculation.model_copy(update={"num_speculative_tokens": k})
    return next(
        (a.name for a in manifest.arms if a.speculation == wanted and a.draft_or_speculator == arm.draft_or_speculator),
        None,
    )


def _held_out(blocks: CompleteBlocks, condition: Condition, arm: str, held_out: set[int]) -> float | None:
    runs = [r for r in blocks.of(Condition(arm, condition.workload, condition.load)) if r.block in held_out]
    steps = sum(map(decode_steps, _served(runs)))
    return sum(map(emitted_after_first, _served(runs))) / steps if steps else None
