"""What failed, the same failures together, each with what it means and what to do next."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from app.domain.evidence import Failure
from app.domain.retry import ATTEMPTS_MAX
from app.domain.vocabulary import FailureClass
from app.experiments.schemas import FailureRead
from app.runs.schemas import RunRead, SessionRead

PLACES_MAX: Final = 12
NOT_SHOWN: Final = frozenset({FailureClass.CANCELED, FailureClass.NOT_NEEDED})


@dataclass(frozen=True, slots=True)
class Advice:
    """What a class of failure means, and what to do. ``again``: a new experiment is the way to measure it again."""

    meaning: str
    action: str
    again: bool = True


ADVICE: Final = {
    FailureClass.CONFIG: Advice(
        "The engine, or Verdraft before it, refused this configuration.",
        "Correct what the message names, let preflight check it without running, and run it again.",
    ),
    FailureClass.OOM: Advice(
        "The engine had not enough memory.",
        "Lower max_model_len, max_num_seqs or k, take a smaller draft, or pin hardware with more memory; "
        "the memory table of an arm that started says what took how much.",
    ),
    FailureClass.ENGINE_DEAD: Advice(
        "The engine ended, or stopped answering, while it was in use.",
        "Read the last lines of its log. The arm is not measured again until it works: that it dies is a finding. "
        "If another version of the engine should do better, pin its runtime.",
    ),
    FailureClass.HANG: Advice(
        "Requests were in the engine and its counters stood still, so it was stopped.",
        "Read the last lines of its log. If it only needed longer, raise VERDRAFT_HANG_TIMEOUT_S; else lower the load "
        "or pin another runtime.",
    ),
    FailureClass.INFRA: Advice(
        "Verdraft or its host broke, not the arm: nothing of this counts against it.",
        f"Nothing, while the block is queued again by itself (up to {ATTEMPTS_MAX} attempts). Once it has failed for "
        "good, look at Operations, mend the host and run it again.",
    ),
    FailureClass.LOOK: Advice(
        "The block is complete and counts; only the planned look after it, which might have ended the experiment, "
        "could not be taken.",
        "Nothing: it goes on to its next look, or to its end; the report is as of the look that would have ended it.",
    ),
    FailureClass.GENERATOR_LIMITED: Advice(
        "The client of this host sent late, so the replay is void: kept, never counted, and repeated in its session.",
        "Nothing, if a repetition is done. If all attempts are void, stop what else runs on the host or offer a lower "
        "load; calibrating the host says which loads it keeps time at.",
    ),
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where it happened, with what there is to read about it."""

    block: int
    arm: str
    workload: str | None
    load: str | None
    session: str
    run: str | None


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """One failure of one arm, wherever it happened. ``further`` places are not listed."""

    failure_class: FailureClass
    message: str
    advice: Advice
    places: tuple[Place, ...]
    further: int
    where: str = ""
    """In words, where no session is to blame."""

    @property
    def is_void(self) -> bool:
        """Whether it is no failure of the arm, but a replay that does not count."""
        return self.failure_class is FailureClass.GENERATOR_LIMITED


def failure_groups(
    sessions: Iterable[SessionRead], runs: Iterable[RunRead], of_blocks: Sequence[FailureRead]
) -> list[FailureGroup]:
    """What failed in sessions and runs; failures of blocks where none of those says why. Void replays come last."""
    found: dict[tuple[str, FailureClass, str], list[Place]] = {}
    for place, failure in _places(sessions, runs):
        if failure.failure_class not in NOT_SHOWN:
            found.setdefault((place.arm, failure.failure_class, failure.message), []).append(place)
    groups = [_group(failure_class, message, places) for (_, failure_class, message), places in found.items()]
    said = {group.message for group in groups}
    groups += [
        FailureGroup(f.failure_class, f.message, ADVICE[f.failure_class], (), 0, f.where)
        for f in of_blocks
        if "/" not in f.where and f.message not in said and f.failure_class not in NOT_SHOWN
    ]
    return sorted(groups, key=lambda group: group.is_void)


def _places(sessions: Iterable[SessionRead], runs: Iterable[RunRead]) -> Iterable[tuple[Place, Failure]]:
    for s in sessions:
        if s.failure is not None:
            yield Place(s.block, s.arm, None, None, str(s.id), None), s.failure
    for r in runs:
        if r.failure is not None:
            yield Place(r.block, r.arm, r.workload, r.load, str(r.session_id), str(r.id)), r.failure


def _group(failure_class: FailureClass, message: str, places: Sequence[Place]) -> FailureGroup:
    ordered = sorted(places, key=lambda place: (place.block, place.workload or "", place.load or ""))
    shown = tuple(ordered[:PLACES_MAX])
    return FailureGroup(failure_class, message, ADVICE[failure_class], shown, len(ordered) - len(shown))
