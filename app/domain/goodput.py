"""Which requests count as good: complete, in time, and, where the workload declares a scorer, correct.

Where only a sample of the answers is scored, the sample's share of good requests stands for all of them.
"""

from collections.abc import Sequence
from typing import NamedTuple

from app.domain.clustered import attainment, good_rate
from app.domain.condition import Condition
from app.domain.evidence import ExperimentEvidence, RunEvidence
from app.domain.judging import Slo
from app.domain.latency import is_good, window_s
from app.domain.observation import RequestObservation
from app.domain.scored import is_correct, sample_of
from app.domain.scoring.terms import Quality
from app.domain.statistics import Estimate

UNSCORED = "answers of {} of {} runs were not scored, and only correct answers count"

Part = tuple[RunEvidence, Sequence[RequestObservation]]
"""A run and those of its observations that are looked at."""


class Good(NamedTuple):
    """What a good request must meet. ``sample`` are the requests that are scored; ``None``: all of them."""

    slo: Slo
    quality: Quality | None = None
    sample: frozenset[str] | None = None


def good_of(evidence: ExperimentEvidence, condition: Condition) -> Good:
    """What is declared for the condition's workload."""
    workload = next(w for w in evidence.manifest.workloads if w.name == condition.workload)
    labels = (r for r in evidence.labels.get(condition.workload, ()) if r.load == condition.load)
    return Good(evidence.manifest.slo, workload.quality, sample_of(workload.quality, labels))


def good_requests(part: Part, rule: Good) -> tuple[int, int] | None:
    """How many are good, of how many that were offered; ``None`` where the run's answers were not scored."""
    run, offered = part
    if rule.quality is None:
        return sum(is_good(o, rule.slo) for o in offered), len(offered)
    if run.scorer is None:
        return None
    looked_at = [o for o in offered if rule.sample is None or o.request_id in rule.sample]
    good = (is_good(o, rule.slo) and is_correct(run, o.request_id, rule.quality) for o in looked_at)
    return sum(good), len(looked_at)


def goodput_rps(part: Part, rule: Good) -> float | None:
    """Good requests per second of the run's window; ``None`` where that is not known."""
    seconds, counted = window_s(part[0].observations), good_requests(part, rule)
    if seconds is None or counted is None:
        return None
    good, of = counted
    if of == len(part[1]):
        return good / seconds
    return good / of * len(part[1]) / seconds if of else None


def mean_goodput(parts: Sequence[Part], rule: Good) -> Estimate:
    """The mean of blocks."""
    measured = [part for part in parts if window_s(part[0].observations)]
    counted = [
        (*counts, len(part[1]) / seconds)
        for part in measured
        if (counts := good_requests(part, rule)) and counts[1] and (seconds := window_s(part[0].observations))
    ]
    found = good_rate([good for good, _, _ in counted], [of for _, of, _ in counted], [rps for _, _, rps in counted])
    return found if len(counted) == len(measured) else _untold(found, measured)


def good_share(parts: Sequence[Part], rule: Good) -> Estimate:
    """Good requests / offered, with its interval over blocks."""
    offered = [part for part in parts if part[1]]
    counted = [of for part in offered if (of := good_requests(part, rule)) is not None and of[1]]
    found = attainment([good for good, _ in counted], [of for _, of in counted])
    return found if len(counted) == len(offered) else _untold(found, offered)


def _untold(found: Estimate, parts: Sequence[Part]) -> Estimate:
    without = sum(run.scorer is None for run, _ in parts)
    why = UNSCORED.format(without, len(parts)) if without else "no request of the scored sample is in it"
    return Estimate(value=None, n=0, unit=found.unit, source=found.source, why=why)
