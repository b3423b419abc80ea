"""Why an arm is as fast as it is: where a request's time was saved or spent, and what acceptance alone foretells.

Times are means per request, target-only's less the arm's of the same block, so that above zero is saved; the engine's
own clocks share the client's whole out. The foretelling is that of Leviathan et al., arXiv 2211.17192.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, ConfigDict

from app.domain.acceptance import decode_steps, emitted_after_first
from app.domain.condition import Condition
from app.domain.evidence import RunEvidence
from app.domain.latency import e2e_ns
from app.domain.mechanism import DECODE, ITL, MS_PER_S, PREFILL, histogram_mean
from app.domain.paired import block_ratio
from app.domain.pairing import CompleteBlocks, Pair
from app.domain.results import ArmResult
from app.domain.statistics import Estimate, mean_over_blocks
from app.domain.vocabulary import NS_PER_MS, Outcome

QUEUE: Final = "vllm:request_queue_time_seconds"
FEWER_STEPS: Final = "fewer target steps"
DEARER_STEPS: Final = "dearer steps (draft, verification, batching)"
WAITING: Final = "waiting in the engine's queue"
READING: Final = "reading the prompt"
OUTSIDE: Final = "outside the engine"
PARTS: Final = (FEWER_STEPS, DEARER_STEPS, WAITING, READING, OUTSIDE)
UNTOLD: Final = "the engine's histograms of both runs are needed, and one of them is not there"
OWN_SOURCE: Final = "the engine's histograms and acceptance, mean of blocks"


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SavedTime(_Frozen):
    """One part of the difference; the parts sum to the whole within each block."""

    part: str
    saved_ms: Estimate


class Explanation(_Frozen):
    """One candidate's condition beside target-only's."""

    arm: str
    workload: str
    load: str
    saved_ms: Estimate
    """Mean end-to-end time per request, target-only's less the arm's."""
    parts: tuple[SavedTime, ...]
    tokens_per_step: Estimate
    """Emitted after the first token, per target step: what acceptance gives."""
    step_cost: Estimate
    """The arm's step over target-only's: what draft, verification and fuller batches cost."""
    draft_cost: float | None
    """Leviathan's c: the step's extra cost per drafted token, in steps of target-only."""
    alpha: float | None
    """Acceptance of a drafted token that was reached, if it were the same at every position."""
    foretold_if_independent: float | None
    """Leviathan's decode speed-up: ``(1 - alpha^(k+1)) / ((1 - alpha)(1 + k c))``."""
    foretold_decode: Estimate
    """Tokens per step over the step's cost: the same without supposing that positions are alike."""
    foretold_request: Estimate
    """The request's speed-up if only decoding had changed, by that factor."""
    measured_request: Estimate
    """Total end-to-end time of target-only over the arm's."""
    words: str


def explain(
    blocks: CompleteBlocks, condition: Condition, *, k: int, overall: ArmResult, counts_per_request: bool
) -> Explanation:
    """Of one candidate; ``overall`` is its result over all strata."""
    measured = [m for pair in blocks.pairs(condition) if (m := _measured(pair)) is not None]
    parts = tuple(SavedTime(part=name, saved_ms=_mean(measured, lambda m, n=name: m.parts[n], "ms")) for name in PARTS)
    told = measured if counts_per_request else []
    alpha, cost = _alpha(overall.acceptance_by_position), _mean(measured, lambda m: m.step_cost, "ratio")
    draft_cost = None if cost.value is None or not k else (cost.value - 1) / k
    return Explanation(
        arm=condition.arm,
        workload=condition.workload,
        load=condition.load,
        saved_ms=_mean(measured, lambda m: m.saved_ms, "ms"),
        parts=parts,
        tokens_per_step=_mean(told, lambda m: m.tokens_per_step, "tokens / step"),
        step_cost=cost,
        draft_cost=draft_cost,
        alpha=alpha,
        foretold_if_independent=leviathan_speedup(alpha, k, draft_cost),
        foretold_decode=_mean(told, lambda m: m.tokens_per_step / m.step_cost, "ratio"),
        foretold_request=_mean(told, lambda m: m.foretold_request, "ratio"),
        measured_request=block_ratio([m.log_speedup for m in measured]),
        words=_words(parts),
    )


def leviathan_tokens(alpha: float, k: int) -> float:
    """Expected tokens of one target step when each of ``k`` drafted ones is accepted with probability ``alpha``."""
    return float(k + 1) if alpha == 1 else (1 - alpha ** (k + 1)) / (1 - alpha)


def leviathan_speedup(alpha: float | None, k: int, cost: float | None) -> float | None:
    """Theorem 3.8: the expected factor on decoding time; ``cost`` is one draft pass over one target step."""
    if alpha is None or cost is None or 1 + k * cost <= 0:
        return None
    return leviathan_tokens(alpha, k) / (1 + k * cost)


@dataclass(frozen=True, slots=True)
class _Times:
    """Means per request of one run, ms."""

    e2e: float
    queue: float
    prefill: float
    decode: float
    step: float


@dataclass(frozen=True, slots=True)
class _Measured:
    """One block."""

    saved_ms: float
    log_speedup: float
    parts: Mapping[str, float]
    step_cost: float
    tokens_per_step: float
    foretold_request: float


def _measured(pair: Pair) -> _Measured | None:
    target, arm = _times(pair.target), _times(pair.arm)
    if target is None or arm is None:
        return None
    tokens, cost = _tokens_per_step(pair.arm), arm.step / target.step
    foretold_ms = target.e2e - target.decode * (1 - cost / tokens)
    return _Measured(
        saved_ms=target.e2e - arm.e2e,
        log_speedup=math.log(target.e2e / arm.e2e),
        parts=_parts(target, arm),
        step_cost=cost,
        tokens_per_step=tokens,
        foretold_request=target.e2e / foretold_ms,
    )


def _parts(target: _Times, arm: _Times) -> dict[str, float]:
    """Steps of the mean request are its decoding time over the step's, so that the two of them sum to its change."""
    theirs, ours = target.decode / target.step, arm.decode / arm.step
    inside = {
        FEWER_STEPS: (theirs - ours) * target.step,
        DEARER_STEPS: ours * (target.step - arm.step),
        WAITING: target.queue - arm.queue,
        READING: target.prefill - arm.prefill,
    }
    return {**inside, OUTSIDE: target.e2e - arm.e2e - sum(inside.values())}


def _times(run: RunEvidence) -> _Times | None:
    times = [ns / NS_PER_MS for o in run.observations if o.outcome is Outcome.SUCCESS and (ns := e2e_ns(o)) is not None]
    phases = [histogram_mean(run, name, MS_PER_S) for name in (QUEUE, PREFILL, DECODE, ITL)]
    if not times or None in phases or not phases[-1]:
        return None
    queue, prefill, decode, step = (phase or 0.0 for phase in phases)
    return _Times(sum(times) / len(times), queue, prefill, decode, step)


def _tokens_per_step(run: RunEvidence) -> float:
    served = [o for o in run.observations if o.outcome is Outcome.SUCCESS]
    steps = sum(map(decode_steps, served))
    return sum(map(emitted_after_first, served)) / steps if steps else 1.0


def _alpha(unconditional: Sequence[float]) -> float | None:
    """Accepted tokens over the drafted ones that were reached, from shares of drafts that were accepted up to j."""
    reached = 1 + sum(unconditional[:-1])
    return sum(unconditional) / reached if unconditional else None


def _words(parts: Sequence[SavedTime]) -> str:
    """The largest saving and the largest loss, whichever there are."""
    known = [(p.saved_ms.value, p.part) for p in parts if p.saved_ms.value is not None]
    if not known:
        return f"not observable: {UNTOLD}"
    gain, gained = max(known)
    loss, lost = min(known)
    saved = f"{gained} saved {gain:.1f} ms a request" if gain > 0 else "nothing was saved"
    return f"{saved}; {lost} cost {-loss:.1f} ms" if loss < 0 else f"{saved}; nothing cost more than before"


def _mean(measured: Sequence[_Measured], value: Callable[[_Measured], float], unit: str) -> Estimate:
    if not measured:
        return Estimate(value=None, n=0, unit=unit, source=OWN_SOURCE, why=UNTOLD)
    return mean_over_blocks([value(m) for m in measured], unit)
