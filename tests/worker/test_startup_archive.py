"""What is kept of every server's start, and that a pair which differs in more than speculation is caught and named."""

import io
import shutil
from typing import Any

import pytest

from app.artifacts.store import ArtifactStore
from app.domain.client_range import CLIENT_RANGE
from app.domain.engine_version import PER_REQUEST_SPECULATION_FLAG
from app.domain.lifecycle import RunState
from app.domain.manifest import Manifest
from app.domain.report import build_report
from app.domain.startup import CanaryFacts, ConfigSource
from app.domain.vocabulary import FailureClass, VerdictWord
from app.evidence.repository import EvidenceRepository
from tests.fakes.runtime import make_fake_runtime
from tests.worker.conduct import Place, PlaceMaker
from worker.calibrated import FILE_NAME
from worker.identity import inspect_runtime

CALIBRATION = b'{"format":"verdraft/client-range/v0","cells":[]}'


async def calibrations(here: Place, manifest: Manifest) -> list[bytes]:
    """What each session kept of its host's calibration."""
    async with here.database.reader() as session:
        repository = EvidenceRepository(session)
        ids = [key for key, _ in await repository.session_records(manifest.digest)]
        kept = [artifact for _, artifact in await repository.artifacts(ids, [])]
    store = ArtifactStore(here.settings.artifacts)
    found: list[bytes] = []
    for artifact in kept:
        if artifact.kind == CLIENT_RANGE:
            file = io.BytesIO()
            store.copy(artifact.sha256, file)
            found.append(file.getvalue())
    return found


async def test_start_up_is_archived_with_its_source_and_its_warnings(place: PlaceMaker) -> None:
    here = place(warns={"ngram": ["Defaulted num_speculative_tokens to 4 for suffix decoding."]})
    here.settings.home.mkdir(parents=True)
    (here.settings.home / FILE_NAME).write_bytes(CALIBRATION)
    manifest = await here.submit()
    await here.conduct()

    evidence = await here.evidence(manifest)
    ngram = next(s for s in evidence.sessions if s.arm == "ngram-k4")
    target = next(s for s in evidence.sessions if s.arm == "target-only")
    assert await calibrations(here, manifest) == [CALIBRATION] * len(evidence.sessions)
    assert ngram.config_source is ConfigSource.SERVER_INFO
    assert ngram.resolved_config["env.VLLM_USE_V2_MODEL_RUNNER"] == "0"
    assert ngram.resolved_config["engine.model_runner"] == "V1"
    assert [w.name for w in ngram.warnings] == ["k_defaulted"]
    assert target.warnings == ()
    assert target.canary == CanaryFacts(exposes_speculation=False)
    assert ngram.canary is not None
    assert ngram.canary.drafted
    report = build_report(evidence)
    assert {v.word for v in report.verdicts} == {VerdictWord.INVALID}
    assert any("k_defaulted" in reason for v in report.verdicts for reason in v.reasons)


async def test_a_failed_start_has_the_configuration_of_its_log(place: PlaceMaker) -> None:
    here = place(faults={"ngram": {"die_at_startup": True}})
    manifest = await here.submit()
    await here.conduct()

    failed = next(s for s in (await here.evidence(manifest)).sessions if s.arm == "ngram-k4")
    assert failed.config_source is ConfigSource.LOG
    assert failed.resolved_config["speculative_config.num_spec_tokens"] == "4"
    assert failed.resolved_config["args.speculative_config.method"] == "ngram"
    assert failed.canary is None
    assert await calibrations(here, manifest) == [], "a host that was never calibrated has none"


async def test_a_server_without_a_document_is_compared_by_its_log(place: PlaceMaker) -> None:
    here = place(has_server_info=False)
    manifest = await here.submit()
    await here.conduct()

    evidence = await here.evidence(manifest)
    assert {s.config_source for s in evidence.sessions} == {ConfigSource.LOG}
    report = build_report(evidence)
    assert report.config_differences == {}
    assert VerdictWord.INVALID not in {v.word for v in report.verdicts}


@pytest.mark.parametrize(
    ("setting", "value", "shown"),
    [
        ("model_config.max_model_len", 256, ("512", "256")),
        ("cache_config.enable_prefix_caching", True, ("false", "true")),
        ("env.VLLM_USE_V2_MODEL_RUNNER", True, ("0", "true")),
    ],
)
async def test_a_confounded_pair_is_caught_and_named(
    place: PlaceMaker, setting: str, value: Any, shown: tuple[str, str]
) -> None:
    here = place(resolves={"ngram": {setting: value}})
    manifest = await here.submit()
    await here.conduct()

    report = build_report(await here.evidence(manifest))
    assert report.config_differences == {"ngram-k4": {setting: shown}}
    assert {v.word for v in report.verdicts} == {VerdictWord.INVALID}
    assert all(any(setting in reason for reason in v.reasons) for v in report.verdicts)


async def test_speculation_that_switches_itself_on_in_target_only_is_caught(place: PlaceMaker) -> None:
    here = place(
        resolves={"target_only": {"speculative_config.method": "eagle3"}},
        exposes_speculation={"target_only": True},
    )
    manifest = await here.submit()
    await here.conduct()

    reasons = [reason for v in build_report(await here.evidence(manifest)).verdicts for reason in v.reasons]
    assert any("target-only resolved speculation by itself: eagle3" in reason for reason in reasons)
    assert any("target-only exposes speculative counters" in reason for reason in reasons)


async def test_a_missing_metric_fails_the_run_by_its_name(place: PlaceMaker) -> None:
    here = place(hides=["vllm:num_preemptions"])
    manifest = await here.submit()
    await here.conduct()

    evidence = await here.evidence(manifest)
    assert {r.state for r in evidence.runs} == {RunState.FAILED}
    failures = [r.failure for r in evidence.runs if r.failure]
    assert {f.failure_class for f in failures} == {FailureClass.CONFIG}
    assert {f.message for f in failures} == {"the engine does not expose vllm:num_preemptions_total"}


async def test_an_engine_without_counts_per_request_is_measured_by_its_counters(place: PlaceMaker) -> None:
    here = place()
    shutil.rmtree(here.runtime_root / "fake")
    make_fake_runtime(here.runtime_root / "fake", version="0.27.0")
    runtime = inspect_runtime(here.runtime_root / "fake").ref
    manifest = await here.submit(runtime=runtime, engine_below_floor="the test needs an old one", blocks=2)
    await here.conduct()

    evidence = await here.evidence(manifest)
    ngram = next(s for s in evidence.sessions if s.arm == "ngram-k4")
    assert PER_REQUEST_SPECULATION_FLAG not in ngram.argv
    assert ngram.flags_left_out.keys() == {PER_REQUEST_SPECULATION_FLAG}
    assert all(o.speculation is None for r in evidence.runs for o in r.observations)
    report = build_report(evidence)
    assert {r.quantity for r in report.reconciliations} == {"prompt_tokens", "generation_tokens"}
    found = next(r for r in report.results if (r.arm, r.stratum, r.load) == ("ngram-k4", "all", "low"))
    assert found.acceptance_rate.value is not None
    assert found.acceptance_rate.n == 2
    assert VerdictWord.INVALID not in {v.word for v in report.verdicts}
    assert any(PER_REQUEST_SPECULATION_FLAG in words for words in report.not_shown)
