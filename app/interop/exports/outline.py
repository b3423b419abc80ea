"""What an export must know of an experiment before its first run: manifest, strata, and which runs count."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from app.domain.condition import Condition
from app.domain.errors import NotFound
from app.domain.evidence import ExperimentEvidence, RunEvidence, SessionEvidence
from app.domain.lifecycle import RunState
from app.domain.manifest import Manifest
from app.domain.pairing import complete_blocks


class RunKey(NamedTuple):
    """What names a run within its experiment."""

    block: int
    arm: str
    workload: str
    load: str
    attempt: int

    @classmethod
    def of(cls, run: RunEvidence) -> "RunKey":
        """The key of a run."""
        return cls(run.block, run.arm, run.workload, run.load, run.attempt)

    @classmethod
    def parse(cls, text: str) -> "RunKey":
        """The key in ``block/arm/workload/load/attempt``; raises ``NotFound``."""
        parts = text.split("/")
        if len(parts) != len(cls._fields) or not (_is_number(parts[0]) and _is_number(parts[4])):
            remedy = "write it as block/arm/workload/load/attempt, such as 0/ngram-k4/tasks/low/1"
            raise NotFound.of("run", f"{text[:200]!r} names no run", remedy)
        return cls(int(parts[0]), parts[1], parts[2], parts[3], int(parts[4]))

    def __str__(self) -> str:
        return "/".join(map(str, self))


class Outline:
    """An experiment's evidence as an export sees it; the runs in it need no observations."""

    def __init__(self, evidence: ExperimentEvidence) -> None:
        self.manifest: Manifest = evidence.manifest
        self.experiment = evidence.manifest.digest
        self.runs = tuple(RunKey.of(run) for run in evidence.runs)
        self.dimensions = tuple(sorted({d for labels in evidence.labels.values() for r in labels for d in r.strata}))
        self._strata = {name: {r.request_id: r.strata for r in labels} for name, labels in evidence.labels.items()}
        self._sessions = evidence.sessions
        self._complete = frozenset(complete_blocks(evidence).indices)

    def counts(self, run: RunEvidence) -> bool:
        """Whether the analysis reads this run: it succeeded, and every arm of its block has ended."""
        return run.state is RunState.SUCCEEDED and run.block in self._complete

    def strata(self, workload: str) -> Mapping[str, Mapping[str, str]]:
        """Request id → dimension → label."""
        return self._strata.get(workload, {})

    def session(self, run: RunEvidence) -> SessionEvidence | None:
        """The last server of the run's arm in its block; of an interrupted arm there may be several."""
        return next((s for s in reversed(self._sessions) if (s.block, s.arm) == (run.block, run.arm)), None)

    def condition(self, run: RunEvidence) -> Condition:
        """What the run measures."""
        return Condition(run.arm, run.workload, run.load)

    def chosen(self, runs: Iterator[RunEvidence], key: RunKey | None) -> Iterator[RunEvidence]:
        """Every run, or the one of that key."""
        return (run for run in runs if key is None or RunKey.of(run) == key)

    def check(self, key: RunKey | None) -> None:
        """Raise ``NotFound`` for a run that the experiment does not have."""
        if key is not None and key not in self.runs:
            raise NotFound.of("run", f"this experiment has no finished run {key}", "look at the experiment's runs")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10  # noqa: PLR2004  (more digits than any count)
