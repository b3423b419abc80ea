"""A runtime that is a container image: the exact `docker run` (or `podman run`) for one server.

The image is named by digest and never pulled here; it gets no network, no writable image and no host path
but the model (read-only) and the session's own directory (socket and caches).
"""

import json
import os
import pwd
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Literal, NoReturn

from app.domain.errors import DomainError
from app.settings import PROJECT_ROOT

IMAGE_PATTERN = re.compile(r"([a-z0-9][a-z0-9._/:-]{0,199})@sha256:([0-9a-f]{64})")
IMAGE_REMEDY = "write repository@sha256:<64 hex>, as `docker inspect --format '{{.RepoDigests}}' IMAGE` shows it"
ENGINE_REMEDY = "install docker or podman here, or use an environment by path: verdraft runtime add NAME PATH"
SESSION_LABEL = "verdraft.session"
SESSION_VARIABLE = "VERDRAFT_SESSION"
SHARED_MEMORY = "8g"
_HOST_VARIABLES = frozenset({"PATH", "PWD", "LC_CTYPE"})
"""Of the host alone: the image has its own."""
PASSED_VARIABLES = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "DO_NOT_TRACK",
        "HF_HUB_OFFLINE",
        "HOME",
        "LANG",
        "NUMBA_CACHE_DIR",
        "SPT_NOENV",
        "TMPDIR",
        "TORCHINDUCTOR_CACHE_DIR",
        "TRITON_CACHE_DIR",
        "VERDRAFT_SESSION",
        "VERDRAFT_SUPERVISOR",
        "VLLM_CACHE_ROOT",
        "VLLM_CPU_KVCACHE_SPACE",
        "VLLM_CPU_OMP_THREADS_BIND",
        "VLLM_ENABLE_STARTUP_PLAN",
        "VLLM_LOGGING_LEVEL",
        "VLLM_NO_USAGE_STATS",
        "VLLM_SERVER_DEV_MODE",
        "VLLM_USE_FLASHINFER_SAMPLER",
        "VLLM_USE_V2_MODEL_RUNNER",
        "XDG_CACHE_HOME",
    }
)
"""All that a server in a container may be given. A launch that sets another variable is refused, not shortened."""

EngineKind = Literal["docker", "podman"]


@dataclass(frozen=True, slots=True)
class Image:
    """A repository and the sha256 of one of its images."""

    repository: str
    digest: str


@dataclass(frozen=True, slots=True)
class ContainerEngine:
    """The program that runs images here."""

    path: str
    kind: EngineKind


@dataclass(frozen=True, slots=True)
class Host:
    """What of the host a container needs to be told. ``cores`` is a list such as ``0,1``; empty is all."""

    engine: ContainerEngine
    user: str
    cores: str = ""


def parse_image(text: str) -> Image:
    """The image named by digest; a tag can move, so it is refused."""
    found = IMAGE_PATTERN.fullmatch(text)
    if found is None or ":" in found[1].rpartition("/")[2]:
        raise DomainError.of("image", f"{text!r} does not name an image by digest", IMAGE_REMEDY)
    return Image(found[1], found[2])


def find_engine() -> ContainerEngine:
    """docker, else podman, on PATH; ``DomainError`` with the remedy where there is neither."""
    kinds: tuple[EngineKind, ...] = ("docker", "podman")
    for kind in kinds:
        path = shutil.which(kind)
        if path is not None:
            return ContainerEngine(path, kind)
    raise DomainError.of("runtime", "neither docker nor podman is on PATH, so images cannot run here", ENGINE_REMEDY)


def serve_argv(
    image: str, device: str, arguments: Sequence[str], environment: Mapping[str, str], host: Host
) -> tuple[str, ...]:
    """The whole argv for ``vllm ARGUMENTS`` in ``image``; ``environment`` is the launch's.

    Every host path in the arguments is mounted at the same place, read-only; the socket's directory and
    ``VLLM_CACHE_ROOT`` are mounted writable. Raises ``DomainError`` for a variable that may not be passed.
    """
    writable = _outermost(_writable(arguments, environment))
    read_only = sorted(p for p in _outermost(_read_only(arguments)) if not _lies_in(p, writable))
    session = environment.get(SESSION_VARIABLE, "")
    return (
        *_isolated(host),
        *(("--label", f"{SESSION_LABEL}={session}") if session else ()),
        *(word for path in read_only for word in ("--mount", _bind(path, "readonly"))),
        *(word for path in writable for word in ("--mount", _bind(path))),
        *(word for name in _passed(environment) for word in ("--env", name)),
        *_accelerators(host.engine.kind, device),
        *("--entrypoint", "vllm", image),
        *arguments,
    )


def ask_argv(image: str, device: str, script: Path, host: Host) -> tuple[str, ...]:
    """The argv that runs ``script`` with the image's own Python."""
    return (
        *_isolated(host),
        *("--mount", f"type=bind,source={script},target=/{script.name},readonly"),
        *(
            "--env",
            "HF_HUB_OFFLINE=1",
            "--env",
            "VLLM_NO_USAGE_STATS=1",
            "--env",
            "DO_NOT_TRACK=1",
            "--env",
            "HOME=/tmp",
        ),
        *_accelerators(host.engine.kind, device),
        *("--entrypoint", "python3", image),
        *("-I", f"/{script.name}"),
    )


def launcher(image: str, device: str) -> str:
    """The text of ``bin/vllm`` of an image's runtime: to everybody else it is a vLLM like any other."""
    return (
        f"#!{sys.executable}\n"
        "import sys\n\n"
        f"sys.path.insert(0, {str(PROJECT_ROOT)!r})\n\n"
        "from worker.runtimes.container import main\n\n"
        f"main({image!r}, {device!r})\n"
    )


def main(image: str, device: str) -> NoReturn:
    """Become the container engine's client for ``vllm`` with this program's own arguments and environment."""
    try:
        argv = serve_argv(image, device, sys.argv[1:], os.environ, this_host())
    except DomainError as error:
        sys.exit(f"verdraft: {error}")
    os.execve(argv[0], argv, client_environment(os.environ))  # noqa: S606  (no shell is the point)


def this_host() -> Host:
    """The container engine here, this process's user, and its cores where it was given only some."""
    mine = os.sched_getaffinity(0)
    is_free = len(mine) == os.cpu_count()
    cores = "" if is_free else ",".join(map(str, sorted(mine)))
    return Host(find_engine(), f"{os.getuid()}:{os.getgid()}", cores)


def client_environment(launch: Mapping[str, str]) -> dict[str, str]:
    """What docker's client itself gets: the launch's variables, of which it passes those it is told to.

    Its own HOME is the user's, where podman keeps the images; the launch's HOME goes to the container by value.
    """
    runtime_directory = f"/run/user/{os.getuid()}"
    own = {"XDG_RUNTIME_DIR": runtime_directory} if Path(runtime_directory).is_dir() else {}
    return {**launch, **own, "HOME": pwd.getpwuid(os.getuid()).pw_dir}


def _isolated(host: Host) -> tuple[str, ...]:
    return (
        *(host.engine.path, "run", "--rm", "--init"),
        *("--pull", "never"),
        *("--network", "none"),
        *("--read-only", "--tmpfs", "/tmp"),  # noqa: S108  (inside the container)
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
        *("--user", host.user),
        *(("--userns", "keep-id") if host.engine.kind == "podman" else ()),
        *("--shm-size", SHARED_MEMORY),
        *(("--cpuset-cpus", host.cores) if host.cores else ()),
    )


def _accelerators(kind: EngineKind, device: str) -> tuple[str, ...]:
    if device != "cuda":
        return ()
    return ("--gpus", "all") if kind == "docker" else ("--device", "nvidia.com/gpu=all")


def _passed(environment: Mapping[str, str]) -> Iterator[str]:
    """``NAME`` for what the client has and passes on; HOME by value, since the client has another."""
    unknown = sorted(set(environment) - PASSED_VARIABLES - _HOST_VARIABLES)
    if unknown:
        message = f"the launch sets {', '.join(unknown)}, which a container is not given"
        raise DomainError.of("runtime", message, "add the variable to PASSED_VARIABLES once it was judged")
    for name in sorted(PASSED_VARIABLES & set(environment)):
        yield f"HOME={environment['HOME']}" if name == "HOME" else name


def _writable(arguments: Sequence[str], environment: Mapping[str, str]) -> Iterator[PurePosixPath]:
    sockets = (after for flag, after in pairwise(arguments) if flag == "--uds")
    yield from (PurePosixPath(socket).parent for socket in sockets)
    if "VLLM_CACHE_ROOT" in environment:
        yield PurePosixPath(environment["VLLM_CACHE_ROOT"])


def _read_only(arguments: Sequence[str]) -> Iterator[PurePosixPath]:
    """Absolute paths among the arguments and in JSON ones; a hub snapshot links into its repository's directory."""
    for before, argument in zip(("", *arguments), arguments, strict=False):
        values = _texts(argument) if argument.startswith("{") else (argument,)
        for path in (PurePosixPath(value) for value in values if value.startswith("/") and before != "--uds"):
            yield path.parent.parent if path.parent.name == "snapshots" else path


def _texts(argument: str) -> Iterator[str]:
    return (value for value in json.loads(argument).values() if isinstance(value, str))


def _outermost(paths: Iterable[PurePosixPath]) -> tuple[PurePosixPath, ...]:
    found = sorted(set(paths))
    return tuple(path for path in found if not _lies_in(path, [other for other in found if other != path]))


def _lies_in(path: PurePosixPath, directories: Iterable[PurePosixPath]) -> bool:
    return any(path.is_relative_to(directory) for directory in directories)


def _bind(path: PurePosixPath, *options: str) -> str:
    if "," in str(path):
        raise DomainError.of("path", f"{path} has a comma, which a container mount cannot say", "rename it")
    return ",".join(("type=bind", f"source={path}", f"target={path}", *options))
