"""Greedy answers side by side: an arm's with target-only's of the same block, target-only's with those of the next.

Each block is a fresh process, so target-only of another block is the control: what differs there no arm has caused.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from app.domain.condition import Condition
from app.domain.evidence import RunEvidence, SessionEvidence
from app.domain.greedy import Answer, Prompt, answer_of
from app.domain.lifecycle import RunState
from app.domain.manifest import Manifest
from app.domain.observation import RequestObservation
from app.domain.verified import VerificationMode
from app.domain.vocabulary import BASELINE_ARM, Outcome


class GreedyMode(StrEnum):
    """How the compared answers came about."""

    TIMED = "timed"
    """In the measured runs, where these are greedy."""
    CONCURRENT = "concurrent"
    SINGLE = "single"


VERIFIED_MODES = {
    GreedyMode.CONCURRENT: VerificationMode.CONCURRENT,
    GreedyMode.SINGLE: VerificationMode.SINGLE,
}

Table = dict[Prompt, Answer]
Tables = Mapping[int, Table]
"""By block."""


class GreedyEvidence(NamedTuple):
    """What there is to compare: of an experiment's complete blocks, or of one block before it is over."""

    manifest: Manifest
    sessions: Sequence[SessionEvidence]
    runs: Sequence[RunEvidence]
    """None where the manifest samples: what was sampled need not be equal."""
    sampled: frozenset[Prompt] = frozenset()
    """Requests that ask for sampling themselves."""


class Difference(NamedTuple):
    """An answer of an arm that is not target-only's of the same block in the same mode."""

    block: int
    mode: GreedyMode
    prompt: Prompt
    load: str | None
    target: Answer
    arm: Answer


class Tally(NamedTuple):
    """Prompts that were compared; each counts once, over however many blocks."""

    blocks: frozenset[int] = frozenset()
    """In which both answered something."""
    prompts: int = 0
    differing: int = 0
    """Whose answers differ in at least one block."""
    control_prompts: int = 0
    control_differing: int = 0
    """Of target-only with itself in another block."""
    paired: int = 0
    """Prompts with an answer of the arm and two of target-only, from which the excess is taken."""
    arm_only: int = 0
    """The arm differs from target-only, and target-only of the next such block does not."""
    control_only: int = 0
    differences: tuple[Difference, ...] = ()

    def plus(self, other: "Tally") -> "Tally":
        """Of disjoint prompts."""
        numbers = (getattr(self, name) + getattr(other, name) for name in self._fields[1:])
        return Tally(self.blocks | other.blocks, *numbers)


def tallies(evidence: GreedyEvidence, arm: str) -> dict[GreedyMode, Tally]:
    """Every comparison of an arm's greedy answers."""
    timed = Tally()
    for condition in _conditions(evidence.manifest, arm):
        timed = timed.plus(_tally(GreedyMode.TIMED, *_timed(evidence, condition), condition.load))
    verified = {mode: _tally(mode, *_verified(evidence.sessions, arm, mode)) for mode in VERIFIED_MODES}
    return {GreedyMode.TIMED: timed} | verified


def answer_in(observation: RequestObservation) -> Answer | None:
    """What was answered in a timed run; ``None`` where nothing was answered in full."""
    if observation.outcome is not Outcome.SUCCESS:
        return None
    return Answer(observation.token_ids, observation.finish_reason, observation.text)


def _tally(mode: GreedyMode, target: Tables, arm: Tables, load: str | None = None) -> Tally:
    differences = tuple(_differences(mode, target, arm, load))
    pairs = [_pair(target, arm, prompt) for prompt in _prompts(arm)]
    both = [pair for pair in pairs if pair is not None]
    given = {
        prompt: [table[prompt] for _, table in sorted(target.items()) if prompt in table] for prompt in _prompts(target)
    }
    repeated = [answers for answers in given.values() if len(answers) > 1]
    compared = {prompt for block in arm for prompt in arm[block] if prompt in target.get(block, {})}
    return Tally(
        blocks=frozenset(b for b in arm if arm[b].keys() & target.get(b, {}).keys()),
        prompts=len(compared),
        differing=len({d.prompt for d in differences}),
        control_prompts=len(repeated),
        control_differing=sum(any(a != answers[0] for a in answers) for answers in repeated),
        paired=len(both),
        arm_only=sum(ours and not control for ours, control in both),
        control_only=sum(control and not ours for ours, control in both),
        differences=differences,
    )


def _differences(mode: GreedyMode, target: Tables, arm: Tables, load: str | None) -> Iterator[Difference]:
    for block in sorted(arm):
        theirs = target.get(block, {})
        for prompt, ours in arm[block].items():
            if prompt in theirs and theirs[prompt] != ours:
                yield Difference(block, mode, prompt, load, theirs[prompt], ours)


def _pair(target: Tables, arm: Tables, prompt: Prompt) -> tuple[bool, bool] | None:
    """Whether the arm and whether target-only of the next block differ from target-only; one comparison each."""
    answered = [block for block in sorted(target) if prompt in target[block]]
    for block, following in pairwise(answered):
        if prompt in arm.get(block, {}):
            reference = target[block][prompt]
            return arm[block][prompt] != reference, target[following][prompt] != reference
    return None


def _prompts(tables: Tables) -> dict[Prompt, None]:
    return {prompt: None for table in tables.values() for prompt in table}


def _verified(sessions: Sequence[SessionEvidence], arm: str, mode: GreedyMode) -> tuple[Tables, Tables]:
    target, ours = (dict[int, Table](), dict[int, Table]())
    for session in sessions:
        table = target if session.arm == BASELINE_ARM else ours
        if session.verification is not None and session.arm in {BASELINE_ARM, arm}:
            table.setdefault(session.block, {}).update(verified_answers(session, VERIFIED_MODES[mode]))
    return target, ours


def verified_answers(session: SessionEvidence, mode: VerificationMode) -> Iterator[tuple[Prompt, Answer]]:
    """The first answer to each prompt in this mode."""
    for given in session.verification.answers if session.verification else ():
        answer = answer_of(given)
        if given.mode is mode and given.repeat == 0 and answer is not None:
            yield Prompt(given.workload, given.request_id), answer


def _timed(evidence: GreedyEvidence, condition: Condition) -> tuple[Tables, Tables]:
    tables: dict[str, dict[int, Table]] = {BASELINE_ARM: {}, condition.arm: {}}
    for run in evidence.runs:
        mine = (run.workload, run.load) == (condition.workload, condition.load) and run.arm in tables
        if mine and run.state is RunState.SUCCEEDED:
            tables[run.arm][run.block] = dict(_answers(run, evidence.sampled))
    return tables[BASELINE_ARM], tables[condition.arm]


def _answers(run: RunEvidence, sampled: frozenset[Prompt]) -> Iterator[tuple[Prompt, Answer]]:
    for observation in run.observations:
        prompt, answer = Prompt(run.workload, observation.request_id), answer_in(observation)
        if answer is not None and prompt not in sampled:
            yield prompt, answer


def _conditions(manifest: Manifest, arm: str) -> Iterable[Condition]:
    return (Condition(arm, workload.name, load.name) for workload in manifest.workloads for load in manifest.loads)


def heard(evidence: GreedyEvidence, arm: str, wanted: frozenset[Prompt]) -> dict[Prompt, dict[int, set[Answer]]]:
    """Every greedy answer that an arm gave to the wanted prompts, by block, wherever it was asked."""
    found: dict[Prompt, dict[int, set[Answer]]] = {prompt: defaultdict(set) for prompt in wanted}
    for run in evidence.runs:
        if run.arm == arm and run.state is RunState.SUCCEEDED:
            _add(found, run.block, _answers(run, evidence.sampled))
    for session in evidence.sessions:
        if session.arm == arm:
            _add(found, session.block, greedy_answers(session))
    return found


def greedy_answers(session: SessionEvidence) -> Iterator[tuple[Prompt, Answer]]:
    """Every greedy answer of a session's verification."""
    for given in session.verification.answers if session.verification else ():
        answer = answer_of(given)
        if given.mode in VERIFIED_MODES.values() and answer is not None:
            yield Prompt(given.workload, given.request_id), answer


def _add(found: dict[Prompt, dict[int, set[Answer]]], block: int, answers: Iterable[tuple[Prompt, Answer]]) -> None:
    for prompt, answer in answers:
        if prompt in found:
            found[prompt][block].add(answer)
