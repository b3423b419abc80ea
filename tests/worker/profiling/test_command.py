"""What ``verdraft profile`` refuses, before any engine is started and by the field that has to change."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from app.domain.launch import LaunchSpec
from app.settings import Settings
from tests.factories import BASELINE, NGRAM, make_manifest, make_trace
from tests.fakes.runtime import make_fake_runtime
from worker.accelerators import whole_host
from worker.cli import app
from worker.identity import hardware, inspect_runtime, software
from worker.models import model_digest
from worker.profiling.launching import FLAG, with_profiler

Profile = Callable[..., Result]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A host with the bundled models and a fake runtime, as the command finds it."""
    make_fake_runtime(tmp_path / "runtimes" / "fake")
    monkeypatch.setenv("VERDRAFT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("VERDRAFT_RUNTIME_ROOT", str(tmp_path / "runtimes"))
    return Settings()


@pytest.fixture
def profile(settings: Settings, tmp_path: Path) -> Profile:
    """Run the command on a manifest that is pinned to this host, with its trace in a file."""
    trace = make_trace(requests=3)
    target = f"local:tiny-target@sha256:{model_digest(settings.model_root / 'tiny-target')}"
    manifest = make_manifest(
        traces={"tasks": trace.digest},
        target_model=target,
        target_tokenizer=target,
        runtime=inspect_runtime(settings.runtime_root / "fake").ref,
        hardware=hardware().model_dump(),
        software=software().model_dump(),
        arms=[BASELINE, NGRAM],
    )
    (tmp_path / "manifest.json").write_bytes(manifest.canonical())
    (tmp_path / "tasks.jsonl").write_bytes(trace.encode())
    (tmp_path / "other.jsonl").write_bytes(make_trace(requests=4).encode())

    def run(*words: str, workload: str = "tasks", trace: str = "tasks.jsonl") -> Result:
        file = ("--trace", str(tmp_path / trace)) if trace else ()
        argv = ("profile", str(tmp_path / "manifest.json"), "--workload", workload, *file, *words)
        return CliRunner().invoke(app, list(argv))

    return run


@pytest.mark.parametrize(
    ("words", "workload", "field", "message"),
    [
        (("--arm", "eagle"), "tasks", "arms", "it has target-only, ngram-k4"),
        (("--load", "flood"), "tasks", "loads", "it has low"),
        ((), "chats", "workloads", "it has tasks"),
    ],
)
def test_a_name_that_the_manifest_lacks_is_refused(
    profile: Profile, words: tuple[str, ...], workload: str, field: str, message: str
) -> None:
    refused = profile(*words, workload=workload)
    assert refused.exit_code == 1
    assert f"{field}: the manifest has no " in refused.stderr
    assert message in refused.stderr


def test_another_trace_is_refused(profile: Profile) -> None:
    refused = profile(trace="other.jsonl")
    assert (refused.exit_code, "and the manifest froze" in refused.stderr) == (1, True)


def test_without_a_file_the_service_has_to_run(profile: Profile) -> None:
    refused = profile(trace="")
    assert (refused.exit_code, "run `verdraft up`" in refused.stderr) == (1, True)


def test_an_experiment_that_runs_is_never_disturbed(profile: Profile, settings: Settings) -> None:
    with whole_host(settings) as ours:
        assert ours
        refused = profile("--json")
    assert refused.exit_code == 1
    assert "an experiment is running on this host" in json.dumps(json.loads(refused.stdout))


def test_a_runtime_without_the_flag_is_refused_by_its_name(profile: Profile, settings: Settings) -> None:
    answer = settings.runtime_root / "fake" / "answer.json"
    told = json.loads(answer.read_text())
    answer.write_text(json.dumps(told | {"serve_flags": [flag for flag in told["serve_flags"] if flag != FLAG]}))
    refused = profile("--arm", "ngram-k4")
    assert refused.exit_code == 1
    assert "does not know --profiler-config" in refused.stderr


def test_nothing_of_the_launch_changes_but_the_profiler(tmp_path: Path) -> None:
    spec = LaunchSpec(argv=("vllm", "serve", "m"), env={"PATH": "/bin"}, socket_path="/s", served_model_name="target")
    profiled = with_profiler(spec, tmp_path, (FLAG,))
    assert profiled.argv[:-2] == spec.argv
    assert profiled.argv[-2] == FLAG
    assert json.loads(profiled.argv[-1])["torch_profiler_dir"] == str(tmp_path)
    assert profiled.env == spec.env | {"VLLM_CUSTOM_SCOPES_FOR_PROFILING": "1"}
    assert with_profiler(spec, tmp_path, None) == profiled
