"""Each check has a case in which it passes, one in which it refuses, and one in which a fact is missing."""

from typing import Any

import pytest

from app.domain.preflight import ARM_RULES, RULES, PreflightOutcome, preflight, problems_of
from tests.domain.preflight_arm_cases import ARM_CASES
from tests.domain.preflight_cases import EXPERIMENT_CASES
from tests.domain.preflight_scenes import (
    CALIBRATED,
    CROWD,
    DRAFTED,
    FAIL,
    HEAD,
    OLD,
    PASS,
    REFUSED,
    UNKNOWN,
    Case,
    Facts,
    Scene,
    arm,
)
from tests.factories import BASELINE, NGRAM, RUNTIME, make_manifest
from tests.factories_host import make_draft, make_eagle, make_runtime

CASES: tuple[Case, ...] = (*EXPERIMENT_CASES, *ARM_CASES)
CANNOT_REFUSE = {
    "target": "a missing model is the worker's to refuse; what is not published is not checkable",
    "target architecture": "the engine may take the Transformers library's class",
    "draft": "the manifest is refused before, by its own rules",
    "special tokens": "outputs stay right, whatever the draft means by a role",
    "chat template": "the engine applies the target's only",
    "rope": "a head may have been trained with other settings",
}
ALWAYS_KNOWN = {"security floor", "policy", "key combinations", "async scheduling"}
"""Checks that look at nothing but the manifest, or that apply only where all is known."""


@pytest.mark.parametrize(("name", "outcome", "facts"), CASES, ids=[f"{n}: {o}" for n, o, _ in CASES])
def test_a_check_ends_as_the_facts_say(name: str, outcome: PreflightOutcome, facts: Facts) -> None:
    check = Scene.of(facts).check(name)
    assert check.outcome is outcome, check.reason
    assert check.reason
    assert "None" not in check.reason
    assert check.remedy or not check.refuses


@pytest.mark.parametrize("rule", [*RULES, *ARM_RULES], ids=lambda rule: rule.name)
def test_each_check_is_seen_to_pass_to_refuse_and_to_lack_a_fact(rule: Any) -> None:
    seen = {outcome for name, outcome, _ in CASES if name == rule.name}
    assert PASS in seen
    assert (FAIL in seen or REFUSED in seen) != (rule.name in CANNOT_REFUSE)
    assert UNKNOWN in seen or rule.name in ALWAYS_KNOWN


def test_names_are_unique_and_sentences_are_the_checks_own() -> None:
    names = [rule.name for rule in (*RULES, *ARM_RULES)]
    assert len(names) == len(set(names))


def test_without_a_host_only_the_manifest_is_judged() -> None:
    manifest = make_manifest(runtime=OLD, arms=[BASELINE, arm("ngram", rejection_sampling="block")])
    checks = {c.name: c for c in preflight(manifest, None)}
    assert checks["runtime"].outcome is UNKNOWN
    assert "no worker has published" in checks["runtime"].reason
    assert {c.name for c in checks.values() if c.refuses} == {"security floor", "rejection sampling"}


def test_an_arm_that_suits_the_host_is_refused_by_nothing() -> None:
    for candidate in (NGRAM, DRAFTED["arm"], arm("suffix", suffix_decoding_max_cached_requests=0)):
        assert problems_of(Scene(arm=candidate).checks()) == []
    assert problems_of(Scene.of(HEAD).checks()) == []


def test_what_refuses_names_the_field_of_its_arm() -> None:
    (problem,) = problems_of(Scene.of(DRAFTED, draft=make_draft(vocab_size=4104)).checks())
    assert problem.field == "arms[1].draft_or_speculator"
    assert problem.message.startswith("vocabulary size: 4,096 ids in the target, 4,104 in the draft")
    assert problem.remedy


def test_the_memory_estimate_shows_its_arithmetic() -> None:
    check = Scene(serving={"kv_cache_space_gib": 1, "max_num_seqs": 16, "max_model_len": 1024}).check("memory")
    # 23.34 M parameters of 4 bytes; 8 layers of 2 x 4 heads x 64 x 4 bytes for each of 1,024 tokens.
    assert "weights 0.09 GiB x 1.1" in check.reason
    assert "one sequence of 1,024 tokens needs 0.02 GiB, 16 together 0.25 GiB" in check.reason
    assert check.reason.endswith("= 2.60 GiB of 8.00 GiB")


def test_a_draft_adds_its_weights_and_its_cache() -> None:
    alone, drafted = Scene().check("memory"), Scene.of(DRAFTED).check("memory")
    assert drafted.field == "arms[1].draft_or_speculator"
    assert alone.field == "serving.max_model_len"
    assert "weights 0.10 GiB" in drafted.reason


def test_the_engine_words_say_what_becomes_of_the_drafts_limit() -> None:
    short = Scene.of(DRAFTED, draft=make_draft(max_position_embeddings=256)).check("draft context")
    assert "beyond 256 tokens the engine stops drafting" in short.reason
    head = Scene.of(HEAD, draft=make_eagle(max_position_embeddings=256)).check("draft context")
    assert "the engine raises that to 512" in head.reason


def test_a_load_beyond_the_range_names_its_field_the_nearest_cell_and_what_to_do() -> None:
    loads = [{"name": "low", "regime": "latency", "rate_rps": 4}, {"name": "high", "regime": "serving", "rate_rps": 90}]
    scene = Scene.of(CALIBRATED, manifest={"loads": loads}, answers={"tasks": {"low": 4.0, "high": 100.0}})
    check = scene.check("client range")
    assert check.outcome is FAIL
    assert check.field == "loads[1].rate_rps"
    assert check.reason == (
        "tasks at high asks the client for 90 requests/s with up to 9,000 chunks/s; the nearest at which it kept time "
        "is 100 requests/s with 40 in flight and 6,400 chunks/s, measured 2026-11-30 04:05 UTC"
    )
    assert "verdraft calibrate" in check.remedy
    crowd = Scene.of(CALIBRATED, manifest={"loads": [{**CROWD, "clients": 300}]}).check("client range")
    assert crowd.field == "loads[0].clients"


def test_of_several_loads_beyond_the_range_the_furthest_is_named() -> None:
    loads = [
        {"name": name, "regime": "serving", "rate_rps": rate} for name, rate in (("a", 150), ("b", 900), ("c", 300))
    ]
    check = Scene.of(CALIBRATED, manifest={"loads": loads}, answers={}).check("client range")
    assert check.field == "loads[1].rate_rps"
    assert check.reason.endswith("(3 of 3 loads are beyond the range)")


def test_an_uncalibrated_host_is_told_how_to_calibrate() -> None:
    check = Scene().check("client range")
    assert "never calibrated" in check.reason
    assert "verdraft calibrate" in check.remedy


def test_the_runtime_names_what_is_here() -> None:
    other = make_runtime(ref=RUNTIME.replace("c" * 64, "f" * 64))
    assert other.ref in Scene(runtime=other).check("runtime").reason
