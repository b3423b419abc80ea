"""From what servers recorded to samples, and to each arm's word."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from app.domain.evidence import ExperimentEvidence, SessionEvidence
from app.domain.sampled_places import Fit, stated
from app.domain.sampling_equality import SampledEquality, judge_samples
from app.domain.sampling_tests import Sample, Samples, Stated
from app.domain.serving import Sampling
from app.domain.verified import VerificationMode, VerifiedAnswer
from app.domain.vocabulary import BASELINE_ARM

_Place = tuple[int, str, VerificationMode, str, str, int]
"""Block, arm, mode, workload, request and repeat: one answer."""


def sampled_equality(evidence: ExperimentEvidence) -> tuple[SampledEquality, ...]:
    """One for each candidate arm; nothing where the experiment does not sample."""
    manifest = evidence.manifest
    if manifest.sampling.temperature <= 0:
        return ()
    fits = fits_of((*evidence.sessions, *evidence.diagnoses))
    target = samples_of(_sessions(evidence, BASELINE_ARM), fits)
    hotter = samples_of(_sessions(evidence, BASELINE_ARM), fits, VerificationMode.SAMPLED_HOTTER)
    arms = {arm.name: samples_of(_sessions(evidence, arm.name), fits) for arm in manifest.candidates}
    return judge_samples(arms, target, hotter or None, first_tokens(evidence, manifest.sampling))


def samples_of(
    sessions: Iterable[SessionEvidence],
    fits: Mapping[_Place, Fit],
    mode: VerificationMode = VerificationMode.SAMPLED,
) -> Samples:
    """One side's samples over its servers."""
    found: dict[tuple[str, str], list[Sample]] = defaultdict(list)
    for session in sorted(sessions, key=lambda one: one.block):
        for answer in _answers(session, mode):
            place = (session.block, session.arm, mode, answer.workload, answer.request_id, answer.repeat)
            sample = Sample(answer.token_ids, answer.finish_reason, fits.get(place))
            found[answer.workload, answer.request_id].append(sample)
    return dict(found)


def fits_of(sessions: Iterable[SessionEvidence]) -> dict[_Place, Fit]:
    """How answers fit the target, by whichever target-only server of their block scored them first."""
    fits: dict[_Place, Fit] = {}
    for session in sessions:
        for one in session.verification.scored if session.verification else ():
            place = (session.block, one.arm, one.mode, one.workload, one.request_id, one.repeat)
            fit = Fit(*(getattr(one, name) for name in Fit._fields))
            fits.setdefault(place, fit)
    return fits


def first_tokens(evidence: ExperimentEvidence, sampling: Sampling) -> Stated:
    """What target-only states for the first token of each sampled prompt."""
    found: dict[tuple[str, str], dict[int, float]] = {}
    for session in (*_sessions(evidence, BASELINE_ARM), *evidence.diagnoses):
        record = session.verification
        if record is None or session.arm != BASELINE_ARM:
            continue
        for choice in record.choices:
            place = None if choice.beginning else stated(choice.alternatives, sampling, raw_logits=record.raw_logits)
            if place and len(place) > 1:
                found.setdefault((choice.workload, choice.request_id), place)
    return found


def _sessions(evidence: ExperimentEvidence, arm: str) -> list[SessionEvidence]:
    return [session for session in evidence.sessions if session.arm == arm]


def _answers(session: SessionEvidence, mode: VerificationMode) -> Iterator[VerifiedAnswer]:
    given = session.verification.answers if session.verification else ()
    return (answer for answer in given if answer.mode is mode and answer.error is None)
