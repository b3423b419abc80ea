"""Which runs may be compared: succeeded runs of complete blocks, arm beside target-only of the same block.

A block is complete when every arm in it has ended: its session by itself, or, interrupted, with nothing left to
measure. A failed session is an ending: it is evidence against its arm, and it does not take the others' block away.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from app.domain.condition import Condition, expand
from app.domain.evidence import ExperimentEvidence, RequestLabels, RunEvidence, SessionEvidence
from app.domain.lifecycle import RunState, SessionState
from app.domain.manifest import Manifest
from app.domain.observation import RequestObservation
from app.domain.vocabulary import BASELINE_ARM

ALL = "all"
"""The stratum of every request."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One arm's run and target-only's, same workload, load and block."""

    block: int
    target: RunEvidence
    arm: RunEvidence


@dataclass(frozen=True, slots=True)
class CompleteBlocks:
    """Succeeded runs of complete blocks, by condition and then by block."""

    indices: tuple[int, ...]
    runs: Mapping[Condition, Mapping[int, RunEvidence]]

    def of(self, condition: Condition) -> tuple[RunEvidence, ...]:
        """The condition's runs in block order."""
        runs = self.runs.get(condition, {})
        return tuple(runs[block] for block in sorted(runs))

    def pairs(self, condition: Condition) -> tuple[Pair, ...]:
        """The condition's runs beside target-only's, in block order."""
        ours = self.runs.get(condition, {})
        theirs = self.runs.get(baseline_of(condition), {})
        return tuple(Pair(block, theirs[block], ours[block]) for block in sorted(ours.keys() & theirs.keys()))


def baseline_of(condition: Condition) -> Condition:
    """The same workload and load under target-only."""
    return Condition(BASELINE_ARM, condition.workload, condition.load)


def complete_blocks(evidence: ExperimentEvidence) -> CompleteBlocks:
    """Index the evidence; runs of blocks that are still under way, or were canceled, are left out."""
    measured: dict[int, set[Condition]] = defaultdict(set)
    for run in evidence.runs:
        if run.state is RunState.SUCCEEDED:
            measured[run.block].add(Condition(run.arm, run.workload, run.load))
    ended: dict[int, set[str]] = defaultdict(set)
    for session in evidence.sessions:
        if _has_ended(session, measured[session.block], evidence.manifest):
            ended[session.block].add(session.arm)
    arms = {arm.name for arm in evidence.manifest.arms}
    indices = tuple(sorted(block for block, seen in ended.items() if arms <= seen))
    runs: dict[Condition, dict[int, RunEvidence]] = defaultdict(dict)
    for run in evidence.runs:
        if run.block in indices and run.state is RunState.SUCCEEDED:
            runs[Condition(run.arm, run.workload, run.load)][run.block] = run
    return CompleteBlocks(indices, dict(runs))


def _has_ended(session: SessionEvidence, measured: set[Condition], manifest: Manifest) -> bool:
    """Of a lost session, what others of its arm have measured counts as well."""
    if session.state is SessionState.LOST:
        return measured.issuperset(c for c in expand(manifest) if c.arm == session.arm)
    return session.state in {SessionState.SUCCEEDED, SessionState.FAILED}


def strata_of(labels: tuple[RequestLabels, ...]) -> dict[str, frozenset[str]]:
    """Stratum → the request ids in it: ``all`` first, then ``dimension=label`` in order."""
    members: dict[str, set[str]] = defaultdict(set)
    for request in labels:
        for dimension, label in request.strata.items():
            members[f"{dimension}={label}"].add(request.request_id)
    everything = frozenset(request.request_id for request in labels)
    return {ALL: everything} | {name: frozenset(members[name]) for name in sorted(members)}


def within(run: RunEvidence, members: frozenset[str]) -> tuple[RequestObservation, ...]:
    """The run's observations of one stratum."""
    return tuple(o for o in run.observations if o.request_id in members)
