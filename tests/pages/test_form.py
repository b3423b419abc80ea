"""The form's inputs are the manifest's fields: what is typed becomes a manifest, what is wrong comes back beside it."""

from typing import Any

import pytest

from app.domain.errors import FieldProblem, ManifestRefused
from app.domain.manifest import parse_manifest
from app.domain.proposer import METHODS_OFFERED, Speculation, keys_of
from app.domain.trace import parse_trace
from app.domain.vocabulary import Method
from app.intake import decode_yaml
from app.pages.form import FormState, empty_form, input_names, read_form, with_problems
from app.pages.form_context import cloned, next_name
from app.pages.form_manifest import NotShown, merged, shown, written
from app.pages.inputs import FIELDS, input_of, inputs_of
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


def document_of(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    return merged(read_form(pairs), OFFER).document


def problems_of(pairs: list[tuple[str, str]]) -> FormState:
    state = read_form(pairs)
    made = merged(state, OFFER)
    with pytest.raises(ManifestRefused) as refused:
        parse_manifest(made.document)
    return with_problems(state, [made.in_form(p) for p in refused.value.problems], input_names(state))


def test_the_form_as_first_shown_is_a_manifest_once_it_has_a_name() -> None:
    manifest = parse_manifest(document_of(posted()))
    assert [arm.name for arm in manifest.arms] == ["target-only", "ngram-k4"]
    assert manifest.workloads[0].trace == TRACE.digest
    assert manifest.hardware == MANIFEST.hardware
    assert manifest.loads[0].rate_rps == 4.0


def test_a_problem_finds_its_row_although_rows_before_it_are_not_used() -> None:
    rows = {"arms[1].speculation.method": "", "arms[3].speculation.method": "draft_model"}
    state = problems_of(posted(**rows, **{"arms[3].speculation.num_speculative_tokens": "0"}))
    (words,) = state.wrong("arms[3].speculation.num_speculative_tokens")
    assert "greater than or equal to 1" in words


def test_a_missing_draft_is_said_at_its_arm() -> None:
    state = problems_of(posted(**{"arms[1].speculation.method": "eagle"}))
    (words,) = state.wrong("arms[1].draft_or_speculator")
    assert "needs draft_or_speculator" in words


def test_a_draft_left_over_from_another_method_is_dropped() -> None:
    manifest = parse_manifest(document_of(posted(**{"arms[1].draft_or_speculator": DRAFT})))
    assert manifest.arms[1].draft_or_speculator == "none"


def test_equal_names_are_said_beside_the_second() -> None:
    twice = {"arms[2].speculation.method": "ngram", "arms[2].speculation.num_speculative_tokens": "4"}
    (words,) = problems_of(posted(**twice)).wrong("arms[2].name")
    assert "used twice" in words


def test_an_input_that_the_form_does_not_have_writes_nothing() -> None:
    odd = {"serving[99999999].x": "1", "hardware.accelerator": "other", "arms[99999999].name": "x"}
    manifest = parse_manifest(document_of(posted(**odd)))
    assert manifest.hardware == MANIFEST.hardware
    assert len(manifest.arms) == 2


def test_nothing_ticked_is_said_beside_the_boxes() -> None:
    pairs = [(name, value) for name, value in posted() if name not in {"workloads", "loads"}]
    state = problems_of(pairs)
    assert state.wrong("workloads")
    assert state.wrong("loads")


def test_problems_of_the_host_are_said_beside_the_runtime() -> None:
    problems = [FieldProblem("hardware.accelerator", "other", "x"), FieldProblem("family", "odd", "y")]
    state = with_problems(empty_form(OFFER), problems, input_names(empty_form(OFFER)))
    assert state.wrong("runtime") == ["hardware.accelerator: other; x"]
    assert state.wrong("") == ["family: odd; y"]


def test_a_closed_loop_is_written_by_its_clients() -> None:
    lines = trace_lines()
    lines = [{**line, "due_ns": 0} if "due_ns" in line else line for line in lines]
    lines[0]["loads"] = [{"name": "low", "clients": 4, "requests": 2, "duration_ns": 0}]
    trace = parse_trace(encode_lines(lines))
    offer = OFFER.model_copy(update={"traces": (KnownTrace(digest=trace.digest, header=trace.header),)})
    form = empty_form(offer)
    document = merged(form.model_copy(update={"values": form.values | {"name": "mine"}}), offer).document
    assert document["loads"] == [{"name": "low", "regime": "latency", "kind": "closed_loop", "clients": 4}]


def test_several_k_make_an_arm_of_each() -> None:
    typed = {"arms[1].speculation.num_speculative_tokens": "2, 4"}
    manifest = parse_manifest(document_of(posted(**typed)))
    assert [arm.name for arm in manifest.arms] == ["target-only", "ngram-k2", "ngram-k4"]


WRITTEN = """
name: by-hand
target_model: {target}
target_tokenizer: {target}
runtime: {runtime}
serving: {{dtype: float32, max_model_len: 1024, prefix_caching: false}}
sampling: temperature 0; top_p 0.9
hardware: {{accelerator: cpu, count: 1, topology: 1 socket}}
software: {{driver: none, cuda: none, os: Debian 12, kernel: "6.1"}}
arms:
- {{name: ngram, speculation: {{method: ngram, num_speculative_tokens: [2, 4], prompt_lookup_max: 5}}}}
- {{name: target-only, speculation: {{method: target_only}}}}
- name: own
  draft_or_speculator: {draft}
  provenance: {{licence: MIT}}
  speculation: {{method: draft_model, num_speculative_tokens: 3}}
workloads: [{{name: mine, trace: {trace}, degenerate_margin: 0.05}}]
loads: [{{name: low, regime: latency, rate_rps: 3.5}}, {{name: other, regime: serving, clients: 3, kind: closed_loop}}]
blocks: 5
schedule_seed: 1
slo: {{ttft_ms: 500, tpot_ms: 50, e2e_ms: 5000}}
family: {{comparisons: [ngram-k2]}}
"""


def by_hand() -> dict[str, Any]:
    text = WRITTEN.format(target=MANIFEST.target_model, runtime=MANIFEST.runtime, draft=DRAFT, trace=TRACE.digest)
    document: Any = decode_yaml(text.encode())
    return document


def with_typed(state: FormState, **typed: str) -> FormState:
    return state.model_copy(update={"values": state.values | typed})


def test_a_manifest_goes_through_the_form_and_comes_back_the_same() -> None:
    document = by_hand()
    made = merged(shown(document), OFFER, document).document
    assert parse_manifest(made).digest == parse_manifest(document).digest
    assert parse_manifest(decode_yaml(written(made).encode())).digest == parse_manifest(document).digest


def test_the_example_of_every_factory_goes_through_the_form() -> None:
    document = MANIFEST.model_dump(mode="json", exclude_none=True)
    assert parse_manifest(merged(shown(document), OFFER, document).document).digest == MANIFEST.digest


def test_what_the_form_does_not_show_is_kept_and_named() -> None:
    document = by_hand()
    state = shown(document)
    assert state.kept == ("family", "arms[2].provenance", "workloads[0].degenerate_margin")
    made = merged(with_typed(state, blocks="7", **{"arms[2].speculation.num_speculative_tokens": "4"}), OFFER, document)
    assert made.document["blocks"] == 7
    assert made.document["family"] == document["family"]
    assert made.document["arms"][2]["provenance"] == {"licence": "MIT"}
    assert made.document["workloads"] == document["workloads"]
    assert made.document["loads"] == document["loads"]
    assert made.document["sampling"] == {"temperature": "0", "top_p": "0.9"}


def test_the_order_of_the_boxes_is_not_the_order_of_the_manifest() -> None:
    document = by_hand()
    state = shown(document)
    turned = state.model_copy(update={"chosen": {part: chosen[::-1] for part, chosen in state.chosen.items()}})
    assert merged(turned, OFFER, document).document["loads"] == document["loads"]
    one = state.model_copy(update={"chosen": state.chosen | {"loads": ("other",)}})
    assert merged(one, OFFER, document).document["loads"] == document["loads"][1:]


def test_a_row_that_is_not_used_any_more_takes_only_its_own_arm_along() -> None:
    document = by_hand()
    state = with_typed(shown(document), **{"arms[0].speculation.method": "", "arms[5].speculation.method": "suffix"})
    made = merged(with_typed(state, **{"arms[5].speculation.num_speculative_tokens": "8"}), OFFER, document)
    assert [arm["name"] for arm in made.document["arms"]] == ["target-only", "own", "suffix-k8"]
    assert made.rows == {1: 2, 2: 5}
    problem = made.in_form(FieldProblem("arms[2].speculation.method", "x", "y"))
    assert problem.field == "arms[5].speculation.method"


def test_a_name_that_says_method_and_k_follows_them() -> None:
    document = MANIFEST.model_dump(mode="json", exclude_none=True)
    state = shown(document)
    assert state.value("arms[1].name") == ""
    made = merged(with_typed(state, **{"arms[1].speculation.num_speculative_tokens": "8"}), OFFER, document)
    assert made.document["arms"][1]["name"] == "ngram-k8"


def test_another_method_leaves_the_keys_of_the_first_behind() -> None:
    document = by_hand()
    made = merged(with_typed(shown(document), **{"arms[0].speculation.method": "suffix"}), OFFER, document).document
    assert made["arms"][0]["speculation"] == {"method": "suffix", "num_speculative_tokens": [2, 4]}


def test_a_single_arm_at_the_top_level_is_the_second_row() -> None:
    document = {k: v for k, v in by_hand().items() if k not in {"arms", "family"}}
    document["speculation"] = {"method": "ngram", "num_speculative_tokens": 4}
    state = shown(document)
    assert state.value("arms[1].speculation.method") == "ngram"
    assert parse_manifest(merged(state, OFFER, document).document).digest != ""


@pytest.mark.parametrize(
    ("field", "value"),
    [("arms", {"a": 1}), ("arms", ["x"]), ("loads", [{"regime": "latency"}]), ("blocks", {"a": 1}), ("slo", [1])],
)
def test_a_shape_that_the_form_has_no_inputs_for_is_said(field: str, value: Any) -> None:
    with pytest.raises(NotShown) as refused:
        shown(by_hand() | {field: value})
    assert refused.value.problems[0].field == field or refused.value.problems[0].field.startswith(f"{field}.")


@pytest.mark.parametrize("document", [None, [], "text", 3])
def test_what_is_no_object_is_not_shown(document: Any) -> None:
    with pytest.raises(NotShown):
        shown(document)


@pytest.mark.parametrize("method", METHODS_OFFERED)
def test_a_method_is_asked_for_exactly_the_keys_that_it_reads(method: Method) -> None:
    taken = {key for key in Speculation.model_fields if key in keys_of(method)}
    assert taken == set(inputs_of(method))
    assert "num_speculative_tokens" in taken
    assert all(input_of(f"arms[1].speculation.{key}").kind for key in taken)


def test_keys_of_another_method_are_not_among_them() -> None:
    assert "prompt_lookup_max" in keys_of(Method.NGRAM)
    assert "prompt_lookup_max" not in keys_of(Method.SUFFIX)
    assert "suffix_decoding_max_tree_depth" not in keys_of(Method.NGRAM)
    assert keys_of(Method.TARGET_ONLY) == ()


@pytest.mark.parametrize(
    ("name", "following"), [("demo", "demo-2"), ("demo-2", "demo-3"), ("a-9", "a-10"), ("x" * 63, "x" * 61 + "-2")]
)
def test_a_clone_has_the_next_name(name: str, following: str) -> None:
    assert next_name(name) == following


def test_a_clone_differs_in_its_name_alone() -> None:
    copy = parse_manifest(cloned(MANIFEST))
    assert copy.model_copy(update={"name": MANIFEST.name}).digest == MANIFEST.digest
    assert copy.digest != MANIFEST.digest


def test_every_single_value_of_a_manifest_has_an_input() -> None:
    assert {"sampling.temperature", "serving.quantization", "margins.delta", "slo.ttft_ms", "looks"} <= set(FIELDS)
