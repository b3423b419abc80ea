"""The layout that people write by hand (spec M1), and what it stands for."""

import json
from typing import Any

import pytest
import yaml

from app.domain.errors import ManifestRefused
from app.domain.manifest import Manifest, parse_manifest
from app.domain.references import image_of
from app.intake import decode_json, decode_yaml
from tests.factories import DRAFT, NGRAM, manifest_document

COMMIT = "0123456789abcdef0123456789abcdef01234567"
DIGEST = "f" * 64
BY_HAND = f"""
name: by-hand
target_model: example-org/target@{COMMIT}
target_tokenizer: example-org/target@{COMMIT}
draft_or_speculator: none
runtime: vllm 0.32.0 ghcr.io/example-org/vllm@sha256:{DIGEST}
speculation: {{method: ngram, num_speculative_tokens: 4, rejection_sampling: standard}}
serving:
  {{dtype: bfloat16, quantization: awq_marlin, tensor_parallel_size: 1, max_model_len: 4096, prefix_caching: false}}
sampling: temperature 0; top_p 1; seed 7
hardware: 1 x NVIDIA H200; single GPU
software: driver 570.1; cuda 12.8; os Debian GNU/Linux 12; kernel 6.1.0
workloads: [{{name: edit, trace: "{DIGEST}"}}]
loads: [{{name: latency, regime: latency, rate_rps: 2}}]
blocks: 5
schedule_seed: 1
slo: {{ttft_ms: 500, tpot_ms: 50, e2e_ms: 5000}}
"""


def by_hand(**changes: Any) -> dict[str, Any]:
    return yaml.safe_load(BY_HAND) | changes


def test_the_layout_of_the_specification_reads_as_it_is() -> None:
    manifest = parse_manifest(decode_yaml(BY_HAND.encode()))
    assert [arm.name for arm in manifest.arms] == ["target-only", "ngram"]
    assert manifest.serving.quantization == "awq_marlin"
    assert (manifest.hardware.count, manifest.hardware.accelerator) == (1, "NVIDIA H200")
    assert manifest.hardware.topology == "single GPU"
    assert manifest.software.os == "Debian GNU/Linux 12"
    assert (manifest.sampling.temperature, manifest.sampling.seed) == (0, 7)
    assert image_of(manifest.runtime) == f"ghcr.io/example-org/vllm@sha256:{DIGEST}"


def test_yaml_and_json_of_the_layout_are_the_same_manifest() -> None:
    as_json = json.dumps(by_hand()).encode()
    assert parse_manifest(decode_json(as_json)).digest == parse_manifest(decode_yaml(BY_HAND.encode())).digest


def test_one_line_and_an_object_are_the_same_manifest() -> None:
    objects = by_hand(
        sampling={"temperature": 0, "top_p": 1, "seed": 7},
        hardware={"accelerator": "NVIDIA H200", "count": 1, "topology": "single GPU"},
        software={"driver": "570.1", "cuda": "12.8", "os": "Debian GNU/Linux 12", "kernel": "6.1.0"},
    )
    assert parse_manifest(objects).digest == parse_manifest(by_hand()).digest


def test_a_single_arm_means_that_arm_against_target_only() -> None:
    document = manifest_document()
    arms = document.pop("arms")
    single = document | {"speculation": arms[1]["speculation"], "draft_or_speculator": "none"}
    listed = document | {"arms": [arms[0], arms[1] | {"name": "ngram"}]}
    assert parse_manifest(single).digest == parse_manifest(listed).digest


@pytest.mark.parametrize("method", ["draft_model", "eagle", "eagle3", "medusa", "dflash", "mlp_speculator"])
def test_methods_with_a_draft_read_as_a_single_arm(method: str) -> None:
    speculation = {"method": method, "num_speculative_tokens": 3}
    manifest = parse_manifest(by_hand(speculation=speculation, draft_or_speculator=DRAFT))
    assert manifest.candidates[0].name == method.replace("_", "-")
    assert manifest.candidates[0].draft_or_speculator == DRAFT


@pytest.mark.parametrize("draft", ["none", DRAFT])
def test_a_head_in_the_target_may_be_named_or_not(draft: str) -> None:
    speculation = {"method": "mtp", "num_speculative_tokens": 1}
    provenance = {"target_revision": f"example-org/target@{COMMIT}"}
    manifest = parse_manifest(by_hand(speculation=speculation, draft_or_speculator=draft, provenance=provenance))
    assert manifest.candidates[0].provenance is not None
    assert "model" not in (manifest.candidates[0].speculation.speculative_config(None) or {})


def test_target_only_takes_the_word_none_for_everything_else() -> None:
    baseline = {"method": "target_only", "num_speculative_tokens": "none", "rejection_sampling": "none"}
    plain = manifest_document()
    worded = manifest_document(arms=[{"name": "target-only", "speculation": baseline}, NGRAM])
    assert parse_manifest(worded).digest == parse_manifest(plain).digest


def test_problems_of_a_single_arm_are_told_where_it_was_written() -> None:
    document = by_hand(speculation={"method": "draft_model", "num_speculative_tokens": 99}, colour="red")
    with pytest.raises(ManifestRefused) as refused:
        parse_manifest(document)
    assert {p.field for p in refused.value.problems} == {"speculation.num_speculative_tokens", "colour"}
    with pytest.raises(ManifestRefused) as refused:
        parse_manifest(by_hand(speculation={"method": "draft_model", "num_speculative_tokens": 4}))
    assert [p.field for p in refused.value.problems] == ["draft_or_speculator"]


def test_defaults_written_out_are_the_same_manifest() -> None:
    manifest = parse_manifest(manifest_document())
    assert parse_manifest(json.loads(manifest.canonical())) == manifest
    assert parse_manifest(manifest_document(purpose="verdict", family={"comparisons": "all"})).digest == manifest.digest


def test_minus_zero_is_zero() -> None:
    assert parse_manifest(by_hand(sampling={"temperature": -0.0, "seed": 7})).digest == parse_manifest(by_hand()).digest


def test_the_canonical_form_has_not_changed() -> None:
    """A later optional field must leave old digests alone; this one was written down when the format was made."""
    assert parse_manifest(by_hand()).digest == CANONICAL_DIGEST


CANONICAL_DIGEST = "85b3de133ccce4f1df679bf9879204197f3426dff7d83b350d1dd2aa9efb070b"


def test_only_set_keys_reach_the_engine() -> None:
    keys = {"draft_sample_method": "probabilistic", "use_heterogeneous_vocab": False, "quantization": None}
    speculation = {"method": "draft_model", "num_speculative_tokens": 4, "rejection_sampling": "block", **keys}
    manifest = parse_manifest(by_hand(speculation=speculation, draft_or_speculator=DRAFT))
    assert manifest.candidates[0].speculation.speculative_config("/draft") == {
        "method": "draft_model",
        "model": "/draft",
        "num_speculative_tokens": 4,
        "rejection_sample_method": "block",
        "draft_sample_method": "probabilistic",
        "use_heterogeneous_vocab": False,
    }


def test_a_range_schedule_reaches_the_engine_as_lists() -> None:
    speculation = {"method": "ngram", "num_speculative_tokens": 4}
    ranges = {"num_speculative_tokens_per_batch_size": [[1, 8, 4], [9, 64, 0]]}
    manifest = parse_manifest(by_hand(speculation=speculation | ranges))
    config = manifest.candidates[0].speculation.speculative_config(None) or {}
    assert json.dumps(config["num_speculative_tokens_per_batch_size"]) == "[[1, 8, 4], [9, 64, 0]]"


def test_lossy_acceptance_is_taken_for_its_cost() -> None:
    speculation = {"method": "ngram", "num_speculative_tokens": 4, "rejection_sampling": "synthetic"}
    document = by_hand(speculation=speculation | {"synthetic_acceptance_length": 2}, purpose="overhead_profiling")
    assert parse_manifest(document).candidates[0].speculation.rejection_sampling.lossy


def test_the_family_names_what_is_decided() -> None:
    arms = [*manifest_document()["arms"], NGRAM | {"name": "other"}]
    everything, one = (parse_manifest(manifest_document(arms=arms, **more)) for more in ({}, _family("other")))
    assert [arm.name for arm in everything.decided] == ["ngram-k4", "other"]
    assert [arm.name for arm in one.decided] == ["other"]
    assert [arm.name for arm in one.candidates] == ["ngram-k4", "other"]


def _family(*names: str) -> dict[str, Any]:
    return {"family": {"comparisons": list(names)}}


def test_a_load_says_what_it_offers() -> None:
    closed = {"name": "many", "kind": "closed_loop", "regime": "serving", "clients": 8}
    manifest: Manifest = parse_manifest(by_hand(loads=[*by_hand()["loads"], closed]))
    assert [load.offered for load in manifest.loads] == ["2 requests/s", "closed loop of 8"]
    assert [load.level for load in manifest.loads] == [2, 8]
