"""What a report says of itself that it does not show."""

from app.domain.evidence import ExperimentEvidence
from app.domain.report import build_report
from tests.domain.evidence_factory import make_evidence


def _placed(evidence: ExperimentEvidence, *places: str) -> ExperimentEvidence:
    """Each block on the next of these accelerators."""
    sessions = tuple(s.model_copy(update={"accelerators": (places[s.block % len(places)],)}) for s in evidence.sessions)
    return evidence.model_copy(update={"sessions": sessions})


def _told(evidence: ExperimentEvidence) -> list[str]:
    return [words for words in build_report(evidence).not_shown if "different accelerators" in words]


def test_blocks_of_several_machines_are_named_with_them() -> None:
    [words] = _told(_placed(make_evidence(), "one/GPU-1", "two/GPU-2"))
    assert words.startswith("blocks were measured on 2 different accelerators")
    assert "one/GPU-1: 1, 3" in words
    assert "two/GPU-2: 2" in words


def test_blocks_of_one_machine_need_no_word() -> None:
    assert _told(_placed(make_evidence(), "one/GPU-1")) == []
    assert _told(make_evidence()) == []
