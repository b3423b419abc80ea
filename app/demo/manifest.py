"""The demo's manifest: what this host is, the probed loads, and the arms to compare."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.demo.workloads import SEED, DemoLoad
from app.domain.manifest import (
    Arm,
    Hardware,
    LoadPoint,
    Manifest,
    Margins,
    Sampling,
    Serving,
    Slo,
    Software,
    WorkloadRef,
)
from app.domain.proposer import Speculation
from app.domain.scoring.terms import Quality, ScorerName
from app.domain.trace import Trace
from app.domain.vocabulary import BASELINE_ARM, Method

TARGET_ALIAS, DRAFT_ALIAS = "tiny-target", "tiny-draft"
HEAD_ALIASES: Mapping[Method, str] = {
    Method.EAGLE: "tiny-eagle",
    Method.EAGLE3: "tiny-eagle3",
    Method.MEDUSA: "tiny-medusa",
}
"""Heads that fit ``tiny-target``; none is bundled, an administrator may add them to the model directory."""
BLOCKS = 5
K = 4
K_GRID = (2, 4, 8)
QUALITY_MARGIN = 0.05
"""What the demo's prompts can show where answers never differ; two points would need about 149 (docs/quality.md)."""
SLO = Slo(ttft_ms=200, tpot_ms=15, e2e_ms=800)


@dataclass(frozen=True, slots=True)
class Platform:
    """What the experiment is pinned to: references by digest, and the host as the worker sees it."""

    runtime: str
    target: str
    draft: str
    hardware: Hardware
    software: Software
    has_suffix_decoding: bool = False
    heads: Mapping[Method, str] = field(default_factory=dict[Method, str])
    """Methods that need a head → the head's reference, where there is one."""


def demo_manifest(
    platform: Platform, loads: tuple[DemoLoad, ...], traces: tuple[Trace, ...], *, blocks: int, full: bool
) -> Manifest:
    """The frozen statement. ``full`` adds suffix, the grid of k, and the heads that the platform has."""
    return Manifest(
        name="demo-full" if full else "demo",
        target_model=platform.target,
        target_tokenizer=platform.target,
        runtime=platform.runtime,
        serving=Serving(
            dtype="float32",  # in bfloat16 batching flips near ties, and each is a mismatch that nobody can explain yet
            max_model_len=1024,
            max_num_seqs=16,
            prefix_caching=False,
            enforce_eager=True,
            async_scheduling=False,
            kv_cache_space_gib=1,
        ),
        sampling=Sampling(temperature=0.0),
        hardware=platform.hardware,
        software=platform.software,
        arms=_full_arms(platform) if full else (_baseline(), _ngram(K), _draft(platform, K)),
        workloads=tuple(
            WorkloadRef(name=trace.header.name, trace=trace.digest, quality=_quality(trace)) for trace in traces
        ),
        loads=tuple(LoadPoint(name=load.name, regime=load.regime, rate_rps=load.rate_rps) for load in loads),
        blocks=blocks,
        schedule_seed=SEED,
        slo=SLO,
        margins=Margins(delta=0.05),
    )


def _quality(trace: Trace) -> Quality | None:
    """Exact, since some tasks are about case and punctuation; nothing where there is no single right answer."""
    checkable = all(request.reference is not None for request in trace.requests)
    return Quality(scorer=ScorerName.EXACT, margin=QUALITY_MARGIN) if checkable else None


def skipped_arms(platform: Platform) -> tuple[str, ...]:
    """What ``full`` would measure but this platform cannot, in words for the user."""
    heads = tuple(
        f"{method} needs a head that fits the target; there is no model {alias}"
        for method, alias in HEAD_ALIASES.items()
        if method not in platform.heads
    )
    return heads if platform.has_suffix_decoding else (*heads, "suffix needs arctic-inference, which the runtime lacks")


def _full_arms(platform: Platform) -> tuple[Arm, ...]:
    suffix = Speculation(method=Method.SUFFIX, num_speculative_tokens=8, suffix_decoding_max_cached_requests=0)
    return (
        _baseline(),
        *(_ngram(k) for k in K_GRID),
        *(_draft(platform, k) for k in K_GRID),
        *([Arm(name="suffix-k8", speculation=suffix)] if platform.has_suffix_decoding else []),
        *(_head(method, reference) for method, reference in platform.heads.items()),
    )


def _baseline() -> Arm:
    return Arm(name=BASELINE_ARM, speculation=Speculation(method=Method.TARGET_ONLY))


def _ngram(k: int) -> Arm:
    speculation = Speculation(method=Method.NGRAM, num_speculative_tokens=k, prompt_lookup_min=2, prompt_lookup_max=5)
    return Arm(name=f"ngram-k{k}", speculation=speculation)


def _draft(platform: Platform, k: int) -> Arm:
    speculation = Speculation(method=Method.DRAFT_MODEL, num_speculative_tokens=k)
    return Arm(name=f"draft-k{k}", draft_or_speculator=platform.draft, speculation=speculation)


def _head(method: Method, reference: str) -> Arm:
    speculation = Speculation(method=method, num_speculative_tokens=3)
    return Arm(name=f"{method}-k3", draft_or_speculator=reference, speculation=speculation)
