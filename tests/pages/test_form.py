"""The form's inputs are the manifest's fields: what is typed becomes a manifest, what is wrong comes back beside it."""

import pytest

from app.domain.errors import FieldProblem, ManifestRefused
from app.domain.manifest import parse_manifest
from app.domain.trace import parse_trace
from app.pages.form import FormState, empty_form, input_names, manifest_document, read_form, with_problems
from app.pages.offer import KnownTrace, Offer
from tests.factories import DRAFT, encode_lines, make_manifest, make_trace, trace_lines

MANIFEST = make_manifest()
TRACE = make_trace()
HOST = MANIFEST.model_dump(mode="json", include={"hardware", "software"})
OFFER = Offer(
    runtimes=(),
    models=(),
    hosts={MANIFEST.runtime: HOST},
    traces=(KnownTrace(digest=TRACE.digest, header=TRACE.header),),
)


def posted(**fields: str) -> list[tuple[str, str]]:
    """The first form as a browser would send it, with ``fields`` typed in (``__`` is a dot)."""
    first = empty_form(OFFER)
    chosen = [(name, value) for name, values in first.chosen.items() for value in values]
    typed = {"name": "mine", "runtime": MANIFEST.runtime, "target_model": MANIFEST.target_model}
    return [*chosen, *(first.values | typed | fields).items()]


def problems_of(pairs: list[tuple[str, str]]) -> FormState:
    state = read_form(pairs)
    with pytest.raises(ManifestRefused) as refused:
        parse_manifest(manifest_document(state, OFFER))
    return with_problems(state, refused.value.problems, input_names(state))


def test_the_form_as_first_shown_is_a_manifest_once_it_has_a_name() -> None:
    manifest = parse_manifest(manifest_document(read_form(posted()), OFFER))
    assert [arm.name for arm in manifest.arms] == ["target-only", "ngram-k4"]
    assert manifest.workloads[0].trace == TRACE.digest
    assert manifest.hardware == MANIFEST.hardware
    assert manifest.loads[0].rate_rps == 4.0


def test_unused_rows_are_closed_up_so_that_problems_find_their_row() -> None:
    rows = {"arms[1].speculation.method": "", "arms[3].speculation.method": "draft_model"}
    state = problems_of(posted(**rows, **{"arms[3].speculation.num_speculative_tokens": "0"}))
    assert state.value("arms[1].speculation.method") == "draft_model"
    (words,) = state.wrong("arms[1].speculation.num_speculative_tokens")
    assert "greater than or equal to 1" in words


def test_a_missing_draft_is_said_at_its_arm() -> None:
    state = problems_of(posted(**{"arms[1].speculation.method": "eagle"}))
    (words,) = state.wrong("arms[1].draft_or_speculator")
    assert "needs draft_or_speculator" in words


def test_a_draft_left_over_from_another_method_is_dropped() -> None:
    manifest = parse_manifest(manifest_document(read_form(posted(**{"arms[1].draft_or_speculator": DRAFT})), OFFER))
    assert manifest.arms[1].draft_or_speculator == "none"


def test_equal_names_are_said_beside_the_second() -> None:
    twice = {"arms[2].speculation.method": "ngram", "arms[2].speculation.num_speculative_tokens": "4"}
    (words,) = problems_of(posted(**twice)).wrong("arms[2].name")
    assert "used twice" in words


def test_an_input_that_the_form_does_not_have_writes_nothing() -> None:
    odd = {"serving[99999999].x": "1", "hardware.accelerator": "other", "arms[99999999].name": "x"}
    manifest = parse_manifest(manifest_document(read_form(posted(**odd)), OFFER))
    assert manifest.hardware == MANIFEST.hardware
    assert len(manifest.arms) == 2


def test_nothing_ticked_is_said_beside_the_boxes() -> None:
    pairs = [(name, value) for name, value in posted() if name not in {"workloads", "loads"}]
    state = problems_of(pairs)
    assert state.wrong("workloads")
    assert state.wrong("loads")


def test_problems_of_the_host_are_said_beside_the_runtime() -> None:
    problems = [FieldProblem("hardware.accelerator", "other", "x"), FieldProblem("sampling", "odd", "y")]
    state = with_problems(empty_form(OFFER), problems, input_names(empty_form(OFFER)))
    assert state.wrong("runtime") == ["hardware.accelerator: other; x"]
    assert state.wrong("") == ["sampling: odd; y"]


def test_a_closed_loop_is_written_by_its_clients() -> None:
    lines = trace_lines()
    lines = [{**line, "due_ns": 0} if "due_ns" in line else line for line in lines]
    lines[0]["loads"] = [{"name": "low", "clients": 4, "requests": 2, "duration_ns": 0}]
    trace = parse_trace(encode_lines(lines))
    offer = OFFER.model_copy(update={"traces": (KnownTrace(digest=trace.digest, header=trace.header),)})
    form = empty_form(offer)
    document = manifest_document(form.model_copy(update={"values": form.values | {"name": "mine"}}), offer)
    assert document["loads"] == [{"name": "low", "regime": "latency", "kind": "closed_loop", "clients": 4}]


def test_several_k_make_an_arm_of_each() -> None:
    typed = {"arms[1].speculation.num_speculative_tokens": "2, 4"}
    manifest = parse_manifest(manifest_document(read_form(posted(**typed)), OFFER))
    assert [arm.name for arm in manifest.arms] == ["target-only", "ngram-k2", "ngram-k4"]
