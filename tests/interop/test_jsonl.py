import json
from array import array

from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.evidence import ExperimentEvidence
from app.domain.observation import RequestObservation
from tests.factories import make_observation
from tests.interop.evidence import exported, make_evidence, make_run, observations, small_evidence


def test_a_line_says_where_it_was_measured() -> None:
    void, served, _ = map(json.loads, exported(small_evidence(), "jsonl").splitlines())
    assert (void["counted"], served["counted"], served["attempt"]) == (False, True, 2)
    assert served["strata"] == {"task": "copy", "length": "0k"}
    assert served["experiment"] == small_evidence().manifest.digest


@given(st.lists(observations, max_size=4))
@settings(deadline=None, max_examples=50)
def test_observations_read_back_exactly(seen: list[RequestObservation]) -> None:
    lines = exported(make_evidence(make_run(seen)), "jsonl").split(b"\n")[:-1]
    assert [RequestObservation.model_validate(json.loads(line)["observation"]) for line in lines] == seen


def test_an_observation_with_compact_arrays_is_the_same() -> None:
    seen = make_observation()
    compact = seen.model_copy(update={"chunk_ns": array("q", seen.chunk_ns), "token_ids": array("q", seen.token_ids)})
    assert exported(make_evidence(make_run([seen])), "jsonl") == exported(_holding(compact), "jsonl")


def _holding(observation: RequestObservation) -> ExperimentEvidence:
    """Past the validation, as a bundle's evidence is made."""
    evidence = make_evidence(make_run([]))
    return evidence.model_copy(update={"runs": (evidence.runs[0].model_copy(update={"observations": (observation,)}),)})
