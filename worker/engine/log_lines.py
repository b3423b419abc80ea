"""What vLLM's log says, read without running anything: memory figures and the cause of a failure.

The engine writes one text stream from several processes; each line may carry a process and a
logger prefix, which is stripped first. Secrets are redacted before anything is shown.
"""

import re
from collections.abc import Iterator

from app.domain.evidence import Failure
from app.domain.vocabulary import FailureClass

MESSAGE_LENGTH_MAX = 400

_PREFIX = re.compile(r"^(?:\([^()]*pid=\d+\)\s*)?(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) [\d-]+ [\d:]+ \[[^\]]+\] ?)?")
_SECRETS = (
    (re.compile(r"\bhf_[A-Za-z0-9]{8,}"), "hf_[redacted]"),
    (re.compile(r"(?i)\b(bearer)\s+[\w.~+/=-]+"), r"\1 [redacted]"),
    (re.compile(r"(\w://)[^/\s:@]+:[^/\s@]+@"), r"\1[redacted]@"),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), "[redacted]"),
    (re.compile(r"\bsk-[A-Za-z0-9_-]{16,}"), "sk-[redacted]"),
)
_MEMORY = (
    ("model_load_gib", r"Model loading took ([\d.]+) GiB"),
    ("model_load_s", r"Model loading took [\d.]+ GiB(?: memory)? and ([\d.]+) seconds"),
    ("kv_cache_available_gib", r"Available KV cache memory: ([\d.]+) GiB"),
    ("kv_cache_set_gib", r"Explicitly set \(([\d.]+)/[\d.]+\) GiB for KV cache"),
    ("kv_cache_tokens", r"KV cache size: ([\d,]+) tokens"),
    ("max_concurrency", r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+x)"),
    ("cuda_graphs_estimated_gib", r"Estimated CUDA graph memory: ([\d.]+) GiB"),
    ("cuda_graphs_gib", r"Graph capturing finished in \d+ secs, took ([\d.]+) GiB"),
    ("cuda_graph_pool_gib", r"CUDA graph pool memory: ([\d.]+) GiB \(actual\)"),
    ("kv_cache_in_use_gib", r"Current kv cache memory in use is ([\d.]+) GiB"),
    ("device_free_gib", r"Free memory on device \(([\d./]+) GiB\) on startup"),
    ("weights_gib", r"Actual usage is ([\d.]+) GiB for weight"),
    ("consumed_gib", r"Actual usage is ([\d.]+) GiB for consumed memory"),
    ("non_torch_gib", r"([\d.]+) GiB for non-torch memory"),
    ("activation_peak_gib", r"([\d.]+) GiB for peak activation"),
    ("init_engine_s", r"init engine \([^)]*\) took ([\d.]+) s"),
    ("compilation_s", r"init engine \([^)]*\) took [\d.]+ s \(compilation: ([\d.]+) s\)"),
)
_OUT_OF_MEMORY = re.compile(
    r"OutOfMemoryError|CUDA out of memory|No available memory for the cache blocks"
    r"|\bMemoryError\b|Cannot allocate memory"
)
_ERROR = re.compile(r"^(?:[A-Za-z_]\w*\.)*(\w*(?:Error|Exception)): (.*)$")
_ECHO = re.compile(r"See (?:the )?(?:stack trace|root cause)|Worker failed with error|encountered an issue")
_ARGPARSE = re.compile(r"^(?:vllm|usage|\S+\.py)\S*(?: serve)?: error: (.*)$")
_CONFIG_ERRORS = frozenset(
    {"ValueError", "ValidationError", "NotImplementedError", "ArgumentError", "KeyError", "TypeError", "OSError",
     "FileNotFoundError", "ImportError", "ModuleNotFoundError", "RepositoryNotFoundError"}
)  # fmt: skip
_KILLED = frozenset({-9, 137})


def redact(text: str) -> str:
    """The text with tokens, bearer credentials and passwords in URLs replaced."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


def memory(text: str) -> dict[str, str]:
    """Memory and start-up figures as printed, unit in the name; tensor-parallel copies are joined if they differ."""
    found: dict[str, str] = {}
    for name, pattern in _MEMORY:
        values = dict.fromkeys(re.findall(pattern, text))
        if values:
            found[name] = " | ".join(values)
    return found


def classify_failure(text: str, exit_code: int | None, *, was_ready: bool = False) -> Failure:
    """Why the engine ended, from its log and exit code; the message is the log's most telling line.

    Before readiness, an error of argument, validation or a missing part is CONFIG; a killed process or
    a failed allocation is OOM; anything else, and everything after readiness, is ENGINE_DEAD.
    """
    kind, message = _cause(text)
    shown = redact(message or f"the engine exited with code {exit_code} and its log names no error")
    return Failure(failure_class=_class(text, kind, exit_code, was_ready), message=shown[:MESSAGE_LENGTH_MAX])


def find_cause(text: str) -> str | None:
    """The log's most telling line, if it names an error."""
    message = _cause(text)[1]
    return redact(message)[:MESSAGE_LENGTH_MAX] or None


def _class(text: str, kind: str, exit_code: int | None, was_ready: bool) -> FailureClass:  # noqa: FBT001
    if exit_code in _KILLED or _OUT_OF_MEMORY.search(text):
        return FailureClass.OOM
    if not was_ready and kind in _CONFIG_ERRORS:
        return FailureClass.CONFIG
    return FailureClass.ENGINE_DEAD


def _cause(text: str) -> tuple[str, str]:
    """The first error that is not an echo of another: its exception's name and what it says."""
    told = list(lines(text))
    for index, line in enumerate(told):
        if argument := _ARGPARSE.match(line):
            return "ArgumentError", argument[1]
        error = _ERROR.match(line)
        if error and not _ECHO.search(line):
            detail = _validation_detail(told[index + 1 :]) if error[1] == "ValidationError" else None
            return error[1], detail or f"{error[1]}: {error[2]}"
    return "", ""


def _validation_detail(following: list[str]) -> str | None:
    """Pydantic states the reason on a line of its own, followed by the input in brackets."""
    for line in following[:4]:
        if " [type=" in line:
            return line.split(" [type=")[0].strip().removeprefix("Value error, ")
    return None


def lines(text: str) -> Iterator[str]:
    """The log's lines without the prefix that says which process and logger wrote each."""
    for line in text.splitlines():
        yield _PREFIX.sub("", line.rstrip())
