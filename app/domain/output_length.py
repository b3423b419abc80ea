"""The stratum that is known only after a run: how long an answer really was, not how long it was allowed to be.

Target-only decides it, so that a request is in the same stratum in every arm whatever that arm answered.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from statistics import median_low

from app.domain.evidence import ExperimentEvidence, RequestLabels
from app.domain.lifecycle import RunState
from app.domain.vocabulary import BASELINE_ARM, Outcome

DIMENSION = "actual-output"
OUTPUT_EDGES = (32, 128, 512, 2_048)
"""Tokens; the last of each bucket."""


def bucket(number: int, edges: tuple[int, ...]) -> str:
    """``129-512`` for the bucket that ends at 512; ``over-2048`` beyond the last edge."""
    place = bisect_left(edges, number)
    if place == len(edges):
        return f"over-{edges[-1]}"
    return f"{edges[place - 1] + 1 if place else 1}-{edges[place]}"


def with_output_lengths(evidence: ExperimentEvidence) -> ExperimentEvidence:
    """The evidence with each request's actual output bucket: of target-only's median answer over the blocks.

    A request that target-only never answered gets none, and a label that the trace declares is kept.
    """
    labels = {workload: tuple(_labels(evidence, workload)) for workload in evidence.labels}
    return evidence.model_copy(update={"labels": labels})


def _labels(evidence: ExperimentEvidence, workload: str) -> Iterator[RequestLabels]:
    lengths = _lengths(evidence, workload)
    return (_labelled(request, lengths) for request in evidence.labels[workload])


def _labelled(request: RequestLabels, lengths: Mapping[str, list[int]]) -> RequestLabels:
    seen = lengths.get(request.request_id)
    if not seen:
        return request
    label = {DIMENSION: bucket(median_low(seen), OUTPUT_EDGES)}
    return request.model_copy(update={"strata": label | request.strata})


def _lengths(evidence: ExperimentEvidence, workload: str) -> dict[str, list[int]]:
    """Request → the lengths of target-only's answers, in tokens."""
    lengths: dict[str, list[int]] = defaultdict(list)
    for run in evidence.runs:
        if (run.arm, run.workload, run.state) == (BASELINE_ARM, workload, RunState.SUCCEEDED):
            for seen in run.observations:
                if seen.outcome is Outcome.SUCCESS and seen.completion_tokens:
                    lengths[seen.request_id].append(seen.completion_tokens)
    return lengths
