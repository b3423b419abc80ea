"""What is known of a vLLM version beforehand: its place in time, its published holes, its metrics.

A version that nobody measured is probed (flags by introspection, metrics by the first scrape), never assumed.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from app.domain.errors import DomainError

_VERSION = re.compile(r"v?(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?(?:\.post\d+)?((?:\.?(?:a|b|rc|dev)\d*)*)(?:\+[\w.]+)?")

PER_REQUEST_SPECULATION_FLAG = "--per-request-spec-decode-metrics"
"""A runtime that has it can put a request's own speculation counts into the response."""


@dataclass(frozen=True, slots=True, order=True)
class EngineVersion:
    """A release; ``is_final`` is false for its release candidates and development builds, which come before it."""

    major: int
    minor: int
    patch: int
    is_final: bool = True

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}{'' if self.is_final else ' (before the release)'}"


def parse_engine_version(text: str) -> EngineVersion:
    """``0.32.0``, ``0.27.0+cpu`` or ``0.33.0rc1`` as a version; ``DomainError`` for anything else."""
    found = _VERSION.fullmatch(text.strip())
    if found is None:
        message = f"{text!r} is not a vLLM version"
        raise DomainError.of("runtime", message, "write it as the engine does, such as 0.32.0")
    return EngineVersion(int(found[1]), int(found[2]), int(found[3] or 0), is_final=not found[4])


def version_of_runtime(runtime: str) -> str:
    """The version in a manifest's ``runtime``: its second word, whatever the digest's form."""
    return runtime.split()[1]


@dataclass(frozen=True, slots=True)
class Advisory:
    """A published hole of the engine."""

    id: str
    fixed_in: EngineVersion
    what: str


ADVISORIES = (
    Advisory("CVE-2026-115911", EngineVersion(0, 32, 0), "a chat template can render without bound"),
    Advisory("CVE-2026-115918", EngineVersion(0, 32, 0), "/v1/responses takes a template that is not trusted"),
    Advisory("CVE-2026-105757", EngineVersion(0, 30, 0), "a failing structured output kills the engine core"),
    Advisory("PYSEC-2026-4353", EngineVersion(0, 30, 0), "a request to /inference/v1/generate crashes the engine"),
    Advisory("CVE-2026-73557", EngineVersion(0, 26, 0), "a race on sparse tensors"),
    Advisory("PYSEC-2026-2303", EngineVersion(0, 24, 0), "prompt embeddings crash the engine"),
    Advisory("CVE-2026-41523", EngineVersion(0, 22, 0), "code execution where Python strips assertions"),
    Advisory("CVE-2026-47155", EngineVersion(0, 22, 0), "a pinned revision is not applied to every file of a model"),
    Advisory("CVE-2026-27893", EngineVersion(0, 18, 0), "remote code is trusted although the flag says no"),
    Advisory("CVE-2026-56340", EngineVersion(0, 13, 0), "an advisory of its own; see its text"),
    Advisory("CVE-2025-6242", EngineVersion(0, 11, 0), "media URLs reach internal addresses"),
    Advisory("CVE-2025-59425", EngineVersion(0, 11, 0), "the API key can be guessed by timing"),
    Advisory("CVE-2025-48944", EngineVersion(0, 9, 0), "a tool definition crashes the engine"),
)
"""Holes with a known fix, newest first."""

SECURITY_FLOOR = max(advisory.fixed_in for advisory in ADVISORIES)
"""The oldest version without a known hole; older ones need a reason in the manifest, which the report shows."""

BATCH_SCHEDULE_SEEN_FROM = EngineVersion(0, 27, 0)
"""The oldest release in which ``num_speculative_tokens_per_batch_size`` was seen (the key's pull request is
vllm#32374); of older ones the resolved configuration tells."""


def below_floor(version: str) -> bool:
    """Whether the engine is older than the floor."""
    return parse_engine_version(version) < SECURITY_FLOOR


def open_advisories(version: str) -> tuple[Advisory, ...]:
    """The published holes that this version still has."""
    found = parse_engine_version(version)
    return tuple(advisory for advisory in ADVISORIES if found < advisory.fixed_in)


def floor_reason(version: str) -> str:
    """Why the engine is below the floor, in one sentence; empty where it is not."""
    holes = open_advisories(version)
    if not holes:
        return ""
    named = "; ".join(f"{hole.id} ({hole.what})" for hole in holes[:2])
    more = f" and {len(holes) - 2} more" if len(holes) > 2 else ""  # noqa: PLR2004  (as many as are named)
    return f"vLLM {version} is older than {SECURITY_FLOOR}, the first without {named}{more}"


class Knowledge(StrEnum):
    """Whether a version's schema was measured, or has to be asked of the engine."""

    KNOWN = "known"
    PROBE = "probe"


@dataclass(frozen=True, slots=True)
class EngineSchema:
    """What the product needs of an engine. Metric names are sample names, ``_total`` included."""

    required_metrics: frozenset[str]
    """Every server must expose them."""
    speculative_metrics: frozenset[str]
    """A server with speculation must expose them, one without must not."""
    required_flags: frozenset[str]
    """Flags of ``vllm serve`` that every launch uses."""
    per_request_speculation: bool
    """Whether a response can carry the request's own speculation counts; else only counters tell of acceptance."""

    def missing_metrics(self, exposed: Collection[str], *, speculative: bool) -> tuple[str, ...]:
        """The needed sample names that a first scrape lacks, sorted; none means that the schema holds."""
        needed = self.required_metrics | (self.speculative_metrics if speculative else frozenset[str]())
        return tuple(sorted(needed.difference(exposed)))

    def missing_flags(self, serve_flags: Collection[str]) -> tuple[str, ...]:
        """The needed flags that the runtime does not have, sorted."""
        return tuple(sorted(self.required_flags.difference(serve_flags)))


_REQUIRED_METRICS = frozenset(
    {
        "process_start_time_seconds",
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:kv_cache_usage_perc",
        "vllm:prompt_tokens_total",
        "vllm:generation_tokens_total",
        "vllm:request_success_total",
        "vllm:num_preemptions_total",
    }
)
_SPECULATIVE_METRICS = frozenset(
    {
        "vllm:spec_decode_num_drafts_total",
        "vllm:spec_decode_num_draft_tokens_total",
        "vllm:spec_decode_num_accepted_tokens_total",
        "vllm:spec_decode_num_accepted_tokens_per_pos_total",
    }
)
_REQUIRED_FLAGS = frozenset(
    {
        "--async-scheduling",
        "--dtype",
        "--enable-per-request-metrics",
        "--enable-prefix-caching",
        "--enable-prompt-tokens-details",
        "--enforce-eager",
        "--generation-config",
        "--max-model-len",
        "--max-num-seqs",
        "--seed",
        "--served-model-name",
        "--speculative-config",
        "--tensor-parallel-size",
        "--tokenizer",
        "--uds",
    }
)


def _schema(*, per_request_speculation: bool) -> EngineSchema:
    return EngineSchema(_REQUIRED_METRICS, _SPECULATIVE_METRICS, _REQUIRED_FLAGS, per_request_speculation)


KNOWN_SCHEMAS = {
    EngineVersion(0, 26, 0): _schema(per_request_speculation=False),
    EngineVersion(0, 27, 0): _schema(per_request_speculation=False),
    EngineVersion(0, 32, 0): _schema(per_request_speculation=True),
}
"""Only versions whose real servers were asked."""


def knowledge(version: str) -> Knowledge:
    """``KNOWN`` for a version whose schema was measured; every other one, a patch release too, is to be probed."""
    return Knowledge.KNOWN if parse_engine_version(version) in KNOWN_SCHEMAS else Knowledge.PROBE


def schema_of(version: str, serve_flags: Collection[str]) -> EngineSchema:
    """The schema to hold the engine to; of an unmeasured version it is what the product needs, still to be checked.

    ``serve_flags`` are what introspection found: of an unmeasured version they alone say whether
    responses carry speculation counts. Check with ``missing_flags`` and, on the first scrape, ``missing_metrics``.
    """
    known = KNOWN_SCHEMAS.get(parse_engine_version(version))
    return known or _schema(per_request_speculation=PER_REQUEST_SPECULATION_FLAG in serve_flags)
