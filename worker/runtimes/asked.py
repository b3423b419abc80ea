"""What a runtime says of itself: asked once per installation with its own Python, then read from a file.

No code of the service runs there, and none of the engine's runs here. A runtime that cannot be asked is
published with the reason, and asked again by the next process.
"""

import hashlib
import os
import platform
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import structlog
from pydantic import BaseModel, ConfigDict, ValidationError

from app.domain.canonical import canonical_json, digest
from app.domain.capability import RuntimeCapability
from app.domain.errors import DomainError
from worker.runtimes.container import ask_argv, client_environment, this_host
from worker.runtimes.registry import ABSENT, Device, RuntimeIdentity

SCRIPT = Path(__file__).with_name("ask_engine.py")
PROTOCOL = 1
TIMEOUT_S = 180.0
ESSENTIAL = ("version", "torch", "methods", "speculative_keys", "serve_flags")
"""Without these a runtime is as good as not asked; the others may be missing in a version that lacks them."""
DRIVER_FILE = Path("/proc/driver/nvidia/version")
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
TAIL_CHARACTERS = 600

log = structlog.get_logger()
_failures: dict[tuple[Path, str], str] = {}
"""Place and cache key → why asking failed in this process, so that an idle worker does not ask at each wake."""


class Unaskable(Exception):
    """The runtime gave no usable answer."""


class EngineAnswer(BaseModel):
    """What ``ask_engine.py`` prints; the names are those of ``RuntimeCapability``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    protocol: int
    version: str
    python: str
    os: str
    kernel: str
    driver: str
    torch: str
    cuda: str
    device: Device
    methods: tuple[str, ...]
    speculative_keys: dict[str, str]
    rejection_sample_methods: tuple[str, ...]
    draft_sample_methods: tuple[str, ...]
    serve_flags: tuple[str, ...]
    architectures: tuple[str, ...]
    eagle3_architectures: tuple[str, ...]
    quantization_methods: tuple[str, ...]
    per_request_speculation: bool
    suffix_decoding: bool
    not_found: dict[str, str]


def capability_of(runtime: RuntimeIdentity, home: Path, say: Callable[[str], None] | None = None) -> RuntimeCapability:
    """The runtime's capability; ``unavailable`` says why it could not be asked. Takes about 20 s once, else nothing."""
    identity = {"ref": runtime.ref, "name": runtime.name, "kind": runtime.kind, "package": runtime.package}
    identity |= {"version": runtime.version, "digest": runtime.digest}
    try:
        answer = _kept_answer(runtime, home / "capabilities", say or _log)
    except Unaskable as error:
        nothing = {"python": runtime.python, "torch": runtime.torch, "cuda": ABSENT, "device": runtime.device}
        return RuntimeCapability.model_validate({**identity, **nothing, "unavailable": str(error)})
    return RuntimeCapability.model_validate({**answer.model_dump(exclude={"protocol", "version"}), **identity})


def cache_key(runtime: RuntimeIdentity) -> str:
    """Another installation, question, kernel or driver is another answer."""
    driver = DRIVER_FILE.read_text() if DRIVER_FILE.exists() else ABSENT
    question = hashlib.sha256(SCRIPT.read_bytes()).hexdigest()
    return digest(canonical_json([runtime.ref, question, platform.release(), platform.version(), driver]))


def ask(runtime: RuntimeIdentity) -> EngineAnswer:
    """Run the question in the runtime itself. Raises ``Unaskable``."""
    with tempfile.TemporaryDirectory(prefix="verdraft-ask-") as scratch:
        text = _output(*_question(runtime, scratch), TIMEOUT_S)
    try:
        answer = EngineAnswer.model_validate_json(text)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise Unaskable(f"the answer was not understood: {wrong['loc']} {wrong['msg']}") from error
    lacking = [f"{name}: {answer.not_found[name]}" for name in ESSENTIAL if name in answer.not_found]
    if lacking:
        raise Unaskable("; ".join(lacking)[:TAIL_CHARACTERS])
    if _public(answer.version) != _public(runtime.version):
        raise Unaskable(f"it is vLLM {answer.version}, and was registered as {runtime.version}")
    return answer


def run_alone(runtime: RuntimeIdentity, script: Path, question: str, timeout_s: float) -> str:
    """What ``script`` prints, run by the runtime's own Python with the file of ``question``. Raises ``Unaskable``."""
    if runtime.image is not None:
        raise Unaskable("only an environment's own Python can be run here, and this runtime is a container image")
    with tempfile.TemporaryDirectory(prefix="verdraft-ask-") as scratch:
        asked = Path(scratch) / "question.json"
        asked.write_text(question)
        return _output((*_alone(runtime, script), str(asked)), _environment(runtime, scratch), timeout_s)


def _kept_answer(runtime: RuntimeIdentity, directory: Path, say: Callable[[str], None]) -> EngineAnswer:
    key = cache_key(runtime)
    path = directory / f"{key}.json"
    with suppress(OSError, ValidationError):
        return EngineAnswer.model_validate_json(path.read_bytes())
    here = (runtime.root, key)
    if here in _failures:
        raise Unaskable(_failures[here])
    say(f"asking runtime {runtime.name} what it can do; once per installation, about 20 s")
    try:
        answer = ask(runtime)
    except Unaskable as error:
        _failures[here] = str(error)
        say(f"runtime {runtime.name} could not be asked: {error}")
        raise
    _keep(path, answer)
    return answer


def _keep(path: Path, answer: EngineAnswer) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(answer.model_dump_json())
    temporary.replace(path)


def _question(runtime: RuntimeIdentity, scratch: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """The argv and the whole environment of the question."""
    if runtime.image is not None:
        try:
            argv = ask_argv(runtime.image, runtime.device, SCRIPT, this_host())
        except DomainError as error:
            raise Unaskable(str(error)) from error
        return argv, client_environment({"PATH": os.environ.get("PATH", SYSTEM_PATH)})
    return _alone(runtime, SCRIPT), _environment(runtime, scratch)


def _alone(runtime: RuntimeIdentity, script: Path) -> tuple[str, ...]:
    python = runtime.root / "bin" / "python"
    interpreter = python if python.exists() else runtime.root / "bin" / f"python{runtime.python}"
    # Isolated (-I): neither this process's PYTHONPATH nor the user's own site-packages may answer.
    return str(interpreter), "-I", str(script)


def _environment(runtime: RuntimeIdentity, scratch: str) -> dict[str, str]:
    caches = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "VLLM_CACHE_ROOT", "NUMBA_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
    return {
        "PATH": f"{runtime.root / 'bin'}:{SYSTEM_PATH}",
        "LANG": "C.UTF-8",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        **dict.fromkeys(caches, scratch),
    }


def _output(argv: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> str:
    """What the question printed. It is a process group of its own, so that a slow one ends with its children."""
    try:
        process = subprocess.Popen(
            argv,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise Unaskable(f"{argv[0]} does not start: {error.strerror}") from error
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise Unaskable(f"no answer within {timeout_s:g} s") from error
    if process.returncode:
        raise Unaskable(f"exit status {process.returncode}: {err.strip()[-TAIL_CHARACTERS:]}")
    return out


def _log(words: str) -> None:
    log.info(words)


def _public(version: str) -> str:
    """Without the local part: ``0.32.0+cpu`` and ``0.32.0`` are the same release."""
    return version.partition("+")[0]
