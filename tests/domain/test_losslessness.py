"""What an arm's verification is meant to be, from its configuration, its runner and its warnings."""

from typing import Any

import pytest

from app.domain.evidence import ExperimentEvidence, SessionEvidence
from app.domain.losslessness import LEGACY_REJECTION, RESOLVED_METHOD, RUNNER, Label, losslessness
from app.domain.startup import StartupWarning, WarningEffect
from app.domain.startup_gates import LOSSY_VERIFICATION
from app.domain.vocabulary import RejectionSampling
from tests.domain.evidence_factory import make_evidence


def _evidence(*, rejection: RejectionSampling | None = None, **session: Any) -> ExperimentEvidence:
    """The factory's experiment, every session as ``session`` says."""
    evidence = make_evidence()
    sessions = tuple(_changed(one, session) for one in evidence.sessions)
    arms = evidence.manifest.arms
    if rejection is not None:
        speculation = arms[1].speculation.model_copy(update={"rejection_sampling": rejection})
        arms = (arms[0], arms[1].model_copy(update={"speculation": speculation}), *arms[2:])
    manifest = evidence.manifest.model_copy(update={"arms": arms})
    return evidence.model_copy(update={"sessions": sessions, "manifest": manifest})


def _changed(session: SessionEvidence, fields: dict[str, Any]) -> SessionEvidence:
    return session.model_copy(update={"startup_ns": 1, **fields})


def _warning(name: str) -> tuple[StartupWarning, ...]:
    return (StartupWarning(name=name, effect=WarningEffect.FAILS_PREFLIGHT, reason="r", line="l"),)


@pytest.mark.parametrize(
    ("evidence", "label", "said"),
    [
        (_evidence(), Label.LOSSLESS, "standard rejection sampling"),
        (_evidence(rejection=RejectionSampling.SYNTHETIC), Label.LOSSY, "synthetic"),
        (_evidence(rejection=RejectionSampling.FLY), Label.LOSSY, "fly"),
        (_evidence(resolved_config={RESOLVED_METHOD: "fly"}), Label.LOSSY, "fly"),
        (_evidence(warnings=_warning(LOSSY_VERIFICATION)), Label.LOSSY, "says that its verification is lossy"),
        (_evidence(warnings=_warning(LEGACY_REJECTION)), Label.UNKNOWN, "missing"),
        (_evidence(startup_ns=None), Label.UNKNOWN, "no server"),
        (_evidence(rejection=RejectionSampling.BLOCK), Label.UNKNOWN, "which model runner"),
        (
            _evidence(rejection=RejectionSampling.BLOCK, resolved_config={RUNNER: "V1"}),
            Label.LOSSLESS,
            "V1 silently uses the standard",
        ),
        (
            _evidence(rejection=RejectionSampling.BLOCK, resolved_config={RUNNER: "V2"}),
            Label.LOSSLESS,
            "published as exact",
        ),
    ],
)
def test_labels(evidence: ExperimentEvidence, label: Label, said: str) -> None:
    found = losslessness(evidence)[0]
    assert found.label is label
    assert said in "; ".join(found.reasons)


def test_an_engine_that_was_found_lossy_when_sampling() -> None:
    evidence = _evidence()
    software = evidence.manifest.software.model_copy(update={"cuda": "none"})
    runtime = f"vllm 0.32.0 sha256:{'a' * 64}"
    greedy = evidence.manifest.model_copy(update={"software": software, "runtime": runtime})
    sampling = greedy.sampling.model_copy(update={"temperature": 0.8})
    sampled = greedy.model_copy(update={"sampling": sampling})
    for manifest, label in ((greedy, Label.LOSSLESS), (sampled, Label.LOSSY)):
        assert losslessness(evidence.model_copy(update={"manifest": manifest}))[0].label is label
