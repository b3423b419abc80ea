"""A server in a container: the argv word by word, and a real launch through a stand-in for docker."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from app.domain.errors import DomainError
from app.domain.launch import SERVED_MODEL_NAME, LaunchSpec, launch_spec
from tests.factories import make_manifest
from tests.fakes.docker import make_fake_docker
from tests.fakes.runtime import make_fake_runtime
from worker.engine.server import VllmServer
from worker.runtimes import container
from worker.runtimes.asked import capability_of
from worker.runtimes.container import (
    PASSED_VARIABLES,
    ContainerEngine,
    Host,
    ask_argv,
    find_engine,
    parse_image,
    serve_argv,
)
from worker.runtimes.registry import candidate_container, inspect_runtime, register

IMAGE = f"docker.io/vllm/vllm-openai@sha256:{'ab' * 32}"
DOCKER = Host(ContainerEngine("/usr/bin/docker", "docker"), "1000:1000")
PODMAN = Host(ContainerEngine("/usr/bin/podman", "podman"), "1000:1000", cores="0,1")
ARGUMENTS = ("serve", "/models/target", "--tokenizer", "/models/target", "--uds", "/scratch/v/vllm.sock", "--seed", "0")
ENVIRONMENT = {
    "PATH": "/usr/bin",
    "HOME": "/scratch/v/cache",
    "VLLM_CACHE_ROOT": "/scratch/v/cache",
    "HF_HUB_OFFLINE": "1",
    "VERDRAFT_SESSION": "session:3",
}


def argv(
    arguments: Sequence[str] = ARGUMENTS,
    environment: Mapping[str, str] = ENVIRONMENT,
    host: Host = DOCKER,
    device: str = "cuda",
) -> tuple[str, ...]:
    return serve_argv(IMAGE, device, arguments, environment, host)


def after(words: Sequence[str], flag: str) -> list[str]:
    """Every value of a repeated flag before the image."""
    options = words[: words.index(IMAGE)]
    return [value for name, value in pairwise(options) if name == flag]


def test_the_whole_command_word_by_word() -> None:
    assert argv() == (
        "/usr/bin/docker",
        "run",
        "--rm",
        "--init",
        *("--pull", "never"),
        *("--network", "none"),
        *("--read-only", "--tmpfs", "/tmp"),  # noqa: S108  (inside the container)
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
        *("--user", "1000:1000"),
        *("--shm-size", "8g"),
        *("--label", "verdraft.session=session:3"),
        *("--mount", "type=bind,source=/models/target,target=/models/target,readonly"),
        *("--mount", "type=bind,source=/scratch/v,target=/scratch/v"),
        *("--env", "HF_HUB_OFFLINE"),
        *("--env", "HOME=/scratch/v/cache"),
        *("--env", "VERDRAFT_SESSION"),
        *("--env", "VLLM_CACHE_ROOT"),
        *("--gpus", "all"),
        *("--entrypoint", "vllm", IMAGE),
        *ARGUMENTS,
    )


def test_nothing_of_the_host_but_models_and_the_session() -> None:
    words = argv()
    assert not any("docker.sock" in word for word in words)
    assert "--privileged" not in words
    assert "--publish" not in words
    assert after(words, "--network") == ["none"]
    assert [mount for mount in after(words, "--mount") if "readonly" not in mount] == [
        "type=bind,source=/scratch/v,target=/scratch/v"
    ]


def test_the_draft_in_the_speculative_configuration_is_mounted_too() -> None:
    words = argv((*ARGUMENTS, "--speculative-config", '{"method":"draft_model","model":"/models/draft"}'))
    assert "type=bind,source=/models/draft,target=/models/draft,readonly" in after(words, "--mount")
    assert after(words, "--mount").count("type=bind,source=/models/target,target=/models/target,readonly") == 1


def test_a_hub_snapshot_is_mounted_with_the_files_that_it_links_to() -> None:
    words = argv(("serve", "/hub/models--a--b/snapshots/0123"))
    assert after(words, "--mount")[0].startswith("type=bind,source=/hub/models--a--b,target=/hub/models--a--b,")


def test_a_target_within_the_session_needs_no_mount_of_its_own() -> None:
    words = argv(("serve", "/scratch/v/model", "--uds", "/scratch/v/s"))
    assert after(words, "--mount") == ["type=bind,source=/scratch/v,target=/scratch/v"]


def test_a_variable_that_nobody_judged_is_refused_and_not_dropped() -> None:
    with pytest.raises(DomainError, match="LD_PRELOAD, PYTHONPATH"):
        argv(environment={**ENVIRONMENT, "PYTHONPATH": "/evil", "LD_PRELOAD": "/evil.so"})


def test_every_variable_of_a_launch_may_be_passed() -> None:
    spec = _spec("/models/target", "/scratch/v")
    assert set(spec.env) - {"PATH"} <= PASSED_VARIABLES
    assert argv(spec.argv[1:], spec.env)[-len(spec.argv) + 1 :] == spec.argv[1:]


def test_the_host_path_of_programs_is_not_passed() -> None:
    assert "PATH" not in after(argv(), "--env")


def test_a_cpu_image_gets_no_accelerator() -> None:
    assert "--gpus" not in argv(device="cpu")


def test_podman_says_the_same_in_its_own_words() -> None:
    words = argv(host=PODMAN)
    assert after(words, "--device") == ["nvidia.com/gpu=all"]
    assert after(words, "--userns") == ["keep-id"]
    assert after(words, "--cpuset-cpus") == ["0,1"]


def test_a_path_that_a_mount_cannot_say_is_refused() -> None:
    with pytest.raises(DomainError, match="comma"):
        argv(("serve", "/models/a,readonly=false"))


def test_the_question_runs_in_the_image_without_a_network() -> None:
    words = ask_argv(IMAGE, "cuda", Path("/srv/ask.py"), DOCKER)
    assert words[-5:] == ("--entrypoint", "python3", IMAGE, "-I", "/ask.py")
    assert after(words, "--network") == ["none"]
    assert after(words, "--mount") == ["type=bind,source=/srv/ask.py,target=/ask.py,readonly"]


@pytest.mark.parametrize("text", ["image", "image@sha256:abc", "a b@sha256:" + "ab" * 32, "x:1@sha256:" + "ab" * 32])
def test_only_a_digest_names_an_image(text: str) -> None:
    with pytest.raises(DomainError, match="by digest") as refused:
        parse_image(text)
    assert "sha256" in refused.value.problems[0].remedy


def test_a_registry_with_a_port_is_no_tag() -> None:
    assert parse_image(f"registry.example:5000/a/b@sha256:{'ab' * 32}").repository == "registry.example:5000/a/b"


def test_docker_is_preferred_and_podman_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    make_fake_docker(tmp_path, tmp_path, name="podman")
    assert find_engine().kind == "podman"
    make_fake_docker(tmp_path, tmp_path)
    assert find_engine() == ContainerEngine(str(tmp_path / "docker"), "docker")


def test_without_docker_and_podman_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DomainError, match="neither docker nor podman") as refused:
        find_engine()
    assert "runtime add NAME PATH" in refused.value.problems[0].remedy


def test_the_client_keeps_its_own_home(tmp_path: Path) -> None:
    assert container.client_environment({"HOME": str(tmp_path), "LANG": "C"})["HOME"] != str(tmp_path)


async def test_a_server_in_an_image_is_served_like_any_other(tmp_path: Path) -> None:
    image = make_fake_runtime(tmp_path / "image")
    root = tmp_path / "runtimes"
    register(candidate_container("boxed", IMAGE, "0.32.0", "cpu", root), root)
    log = make_fake_docker(root / "boxed" / "bin", image)  # the launch's PATH begins with it
    (tmp_path / "model").mkdir()
    spec = _spec(str(tmp_path / "model"), str(tmp_path / "s"), executable=str(root / "boxed" / "bin" / "vllm"))
    (tmp_path / "s").mkdir()
    async with VllmServer(spec, tmp_path / "log", tag="session:1", startup_timeout_s=60) as server:
        assert server.alive()
    run = json.loads(log.read_text())
    assert run[0] == "run"
    assert IMAGE in run
    assert "verdraft.session=session:1" in run


def test_an_image_says_what_it_can_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_fake_docker(tmp_path / "bin", make_fake_runtime(tmp_path / "image", version="0.27.0"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    root = tmp_path / "runtimes"
    found = capability_of(candidate_container("boxed", IMAGE, "0.27.0", "cpu", root), tmp_path / "home")
    assert found.unavailable is None
    assert not found.per_request_speculation
    assert found.kind == "container"
    other = capability_of(candidate_container("boxed", IMAGE, "0.32.0", "cpu", root), tmp_path / "home")
    assert "it is vLLM 0.27.0, and was registered as 0.32.0" in str(other.unavailable)


def test_without_docker_an_image_is_unavailable_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = capability_of(candidate_container("boxed", IMAGE, "0.32.0", "cuda", tmp_path / "r"), tmp_path / "home")
    assert "neither docker nor podman" in str(found.unavailable)
    assert found.methods == ()


def test_the_launcher_refuses_in_words_where_nothing_can_run_it(tmp_path: Path) -> None:
    root = tmp_path / "runtimes"
    register(candidate_container("boxed", IMAGE, "0.32.0", "cuda", root), root)
    launcher = inspect_runtime(root / "boxed").executable
    assert launcher.read_text().startswith(f"#!{sys.executable}\n")
    asked = subprocess.run(
        [launcher, "serve"], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert asked.returncode == 1
    assert "neither docker nor podman" in asked.stderr


def _spec(model: str, directory: str, executable: str = "/runtime/bin/vllm") -> LaunchSpec:
    manifest = make_manifest()
    spec = launch_spec(
        manifest,
        manifest.baseline,
        executable=executable,
        target_path=model,
        tokenizer_path=model,
        draft_path=None,
        socket_path=f"{directory}/vllm.sock",
        cache_root=f"{directory}/cache",
        engine_cores="0",
        tree_cores=(),
    )
    assert spec.served_model_name == SERVED_MODEL_NAME
    return spec
