"""Is an arm's way of verifying drafts meant to keep the target's distribution? From configuration, runner and warnings.

A label states what is claimed and known before any sample is looked at; ``sampling_equality`` says what samples show.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict

from app.domain.engine_version import version_of_runtime
from app.domain.evidence import ExperimentEvidence, SessionEvidence
from app.domain.manifest import Arm, Manifest
from app.domain.startup_gates import LOSSY_VERIFICATION
from app.domain.vocabulary import Method, RejectionSampling

LEGACY_REJECTION: Final = "legacy_rejection"
"""The engine adapter's name of the warning that a sampled draft's probabilities were missing."""
RUNNER: Final = "engine.model_runner"
RESOLVED_METHOD: Final = "speculative_config.rejection_sample_method"
CPU_LOSES_PARAMETERS: Final = frozenset({"0.27.0", "0.32.0"})
"""Versions whose CPU sampler was driven and found to verify drafts at temperatures that nobody asked for."""


class Label(StrEnum):
    """What a mode of verification is."""

    LOSSLESS = "lossless"
    LOSSY = "lossy"
    UNKNOWN = "unknown"


class Losslessness(BaseModel):
    """One arm's label and what it rests on."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    arm: str
    label: Label
    reasons: tuple[str, ...]


def losslessness(evidence: ExperimentEvidence) -> tuple[Losslessness, ...]:
    """One for each candidate arm."""
    return tuple(_labelled(evidence, arm) for arm in evidence.manifest.candidates)


def _labelled(evidence: ExperimentEvidence, arm: Arm) -> Losslessness:
    started = [s for s in evidence.sessions if s.arm == arm.name and s.startup_ns is not None]
    found = (
        (Label.LOSSY, tuple(_lossy(evidence.manifest, arm, started))),
        (Label.UNKNOWN, tuple(_unknown(arm, started))),
        (Label.LOSSLESS, tuple(_lossless(arm, started))),
    )
    label, reasons = next((label, reasons) for label, reasons in found if reasons)
    return Losslessness(arm=arm.name, label=label, reasons=reasons)


def _lossy(manifest: Manifest, arm: Arm, started: list[SessionEvidence]) -> Iterator[str]:
    asked = {str(arm.speculation.rejection_sampling), *(s.resolved_config.get(RESOLVED_METHOD, "") for s in started)}
    for mode in RejectionSampling:
        if mode.lossy and mode in asked:
            yield f"{mode} rejection sampling lets tokens through that the target would not have chosen"
    if _warned(started, LOSSY_VERIFICATION):
        yield "the engine says that its verification is lossy"
    version = version_of_runtime(manifest.runtime).partition("+")[0]
    if manifest.sampling.temperature > 0 and manifest.software.cuda == "none" and version in CPU_LOSES_PARAMETERS:
        yield (
            f"vLLM {version} on a CPU does not hand temperature, top-k and top-p to drafted tokens "
            "(`verdraft runtime sampler` shows it)"
        )


def _unknown(arm: Arm, started: list[SessionEvidence]) -> Iterator[str]:
    if not started:
        yield "no server of it became ready, so that nothing was resolved"
    if arm.speculation.method is Method.CUSTOM_CLASS:
        yield "a class of the user's own proposes tokens"
    if arm.speculation.enable_adaptive_verification:
        yield "adaptive verification has not been looked at here"
    if _warned(started, LEGACY_REJECTION):
        yield "probabilities of sampled drafts were missing at times, and the drafts were verified as if certain"
    if arm.speculation.rejection_sampling is RejectionSampling.BLOCK and any(
        RUNNER not in s.resolved_config for s in started
    ):
        yield "block rejection sampling was asked for, and it is not known which model runner served"


def _lossless(arm: Arm, started: list[SessionEvidence]) -> Iterator[str]:
    runners = {session.resolved_config.get(RUNNER) for session in started}
    if arm.speculation.rejection_sampling is not RejectionSampling.BLOCK:
        yield "standard rejection sampling"
    elif "V1" in runners:
        yield "block rejection sampling was asked for, and model runner V1 silently uses the standard one"
    else:
        yield "block rejection sampling, which is published as exact"


def _warned(sessions: list[SessionEvidence], name: str) -> bool:
    return any(warning.name == name for session in sessions for warning in session.warnings)
