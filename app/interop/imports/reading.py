"""Whose file it is, by what is in it, and its result; what is not known is refused by name."""

from collections.abc import Callable
from typing import Final, NamedTuple

from app.domain.canonical import digest
from app.interop.imports.aiperf_records import are_records, read_records
from app.interop.imports.document import TOP, Root, decode, refused
from app.interop.imports.from_aiperf import aiperf_model, aiperf_versions, read_aiperf
from app.interop.imports.from_guidellm import guidellm_model, guidellm_versions, read_guidellm
from app.interop.imports.from_vllm import read_vllm
from app.interop.imports.result import LABEL_MAX, ImportedPart, ImportedResult, Tool

READ_HERE: Final = (
    "read here: JSON of `vllm bench serve --save-result`, GuideLLM's report version 2 (JSON), AIPerf's "
    "profile_export_aiperf.json or profile_export.jsonl"
)
OTHERS: Final = {
    "verdraft": ("it is an export of Verdraft's own", "publish the experiment's bundle: that can be verified"),
    "aggregation_type": ("it is AIPerf's aggregate of several runs", "import the profile_export_aiperf.json of each"),
    "combined": ("it is AIPerf's pool of several runs", "import the profile_export_aiperf.json of each"),
    "elapsed_time": ("it is of `vllm bench throughput`, which has no arrivals", "run `vllm bench serve`"),
    "avg_latency": ("it is of `vllm bench latency`, which has no arrivals", "run `vllm bench serve`"),
    "args": ("it is a GuideLLM report before version 2", "write it with GuideLLM 0.7 or 0.8"),
    "total_input_sequences": ("it is of an embedding benchmark, which generates nothing", "benchmark generation"),
}
"""A member that only such a file has → what it is and what to do."""


class _Read(NamedTuple):
    tool: Tool
    tool_version: str | None
    schema_version: str | None
    model: str | None
    parts: tuple[ImportedPart, ...]


def read_result(content: bytes, label: str) -> ImportedResult:
    """The result in a file of a known tool, under the name that its reader gives it; raises ``ImportRefused``."""
    named = label.strip()
    if not named or len(named) > LABEL_MAX or not named.isprintable():
        message = f"a label has 1 to {LABEL_MAX} printable characters"
        raise refused("label", message, "name the arm, such as: ngram k=4, host B")
    read, ignored = _read(content)
    return ImportedResult(
        **read._asdict(),
        label=named,
        source_sha256=digest(content),
        source_bytes=len(content),
        ignored_fields=ignored,
    )


def _read(content: bytes) -> tuple[_Read, int]:
    if are_records(content):
        part, ignored = read_records(content)
        return _Read(Tool.AIPERF, None, None, None, (part,)), ignored
    root = Root(decode(content))
    return _reader(root)(root), root.ignored_everywhere()


def _reader(root: Root) -> Callable[[Root], _Read]:
    if root.has("aiperf_version") and root.has("request_throughput"):
        return _aiperf
    if root.has("benchmarks") and root.has("metadata"):
        return _guidellm
    for member, (what, remedy) in OTHERS.items():
        if root.has(member):
            raise refused(TOP, f"{what}; {READ_HERE}", remedy)
    if root.has("completed") and root.has("backend"):
        return _vllm
    raise refused(TOP, f"it is of no known tool; {READ_HERE}", "send the file as its tool wrote it")


def _vllm(root: Root) -> _Read:
    return _Read(Tool.VLLM, None, None, root.text("model_id") if root.has("model_id") else None, (read_vllm(root),))


def _guidellm(root: Root) -> _Read:
    version, schema = guidellm_versions(root)
    return _Read(Tool.GUIDELLM, version, schema, guidellm_model(root), read_guidellm(root))


def _aiperf(root: Root) -> _Read:
    version, schema = aiperf_versions(root)
    return _Read(Tool.AIPERF, version, schema, aiperf_model(root), (read_aiperf(root),))
