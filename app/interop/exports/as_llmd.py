"""One run as a benchmark report 0.2.1 of llm-d: stack, load and aggregates in its words and units.

The schema takes no member that it does not know; what is ours alone is in ``results.profiling``, where it takes any.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from app.domain.acceptance import DraftCounts, draft_counts, mean_length_incl
from app.domain.canonical import canonical_json, digest
from app.domain.engine_version import version_of_runtime
from app.domain.evidence import RunEvidence
from app.domain.latency import e2e_ns, itl_chunk_ns, output_tokens, tpot_ns, ttft_ns
from app.domain.manifest import Manifest
from app.domain.observation import RequestObservation
from app.domain.report import ANALYSIS_VERSION
from app.domain.vocabulary import NS_PER_S, Outcome
from app.interop.exports.documents import Document
from app.interop.exports.from_sent import Answer, answers, duration_s, per_second
from app.interop.exports.outline import Outline, RunKey
from app.interop.exports.rows import place_of

VERSION: Final = "0.2.1"
TOOL: Final = "verdraft"
ENGINE: Final = "engine"
QUANTILES: Final = {
    "p0p1": 0.1, "p1": 1, "p5": 5, "p10": 10, "p25": 25, "p50": 50,
    "p75": 75, "p90": 90, "p95": 95, "p99": 99, "p99p9": 99.9,
}  # fmt: skip
ENDED_EARLY: Final = frozenset({Outcome.CLIENT_CANCEL, Outcome.DEADLINE_MISS, Outcome.STALL, Outcome.NOT_SENT})
"""Given up by the client: incomplete there, where an answer with an error is a failure."""
DEFINITIONS: Final = {
    "latency": "from the send, so that reports of several tools compare; profiling.from_due counts from the due time",
    "inter_token_latency": "between consecutive reads that carried tokens; one sample a read",
    "time_per_output_token": "(last token - first token) / (tokens - 1); one sample a request",
    "normalized_time_per_output_token": "request latency / tokens; one sample a request",
    "throughput": "over the time from the first due request to the last byte of any answer",
}


def llmd_report(outline: Outline, run: RunEvidence) -> Document:
    """The run as a benchmark report."""
    return {
        "version": VERSION,
        "run": _run(outline, run),
        "scenario": {"stack": [_engine(outline, run)], "load": _load(outline, run)},
        "results": {"request_performance": {"aggregate": _aggregate(run)}, "profiling": {TOOL: _ours(outline, run)}},
    }


def _run(outline: Outline, run: RunEvidence) -> Document:
    key = RunKey.of(run)
    counted = "counted" if outline.counts(run) else "not counted"
    return {
        "uid": digest(f"{outline.experiment}/{key}".encode()),
        "eid": outline.experiment,
        "description": f"{outline.manifest.name}: {key}; {counted} by verdraft's analysis",
        "keywords": [TOOL, run.arm, run.workload, run.load],
    }


def _engine(outline: Outline, run: RunEvidence) -> Document:
    manifest, session = outline.manifest, outline.session(run)
    native: Document = {
        "args": {"argv": [*session.argv]} if session else None,
        "config": {**session.resolved_config} if session else None,
    }
    return {
        "metadata": {"label": ENGINE, "cfg_id": digest(canonical_json(native)), "description": manifest.runtime},
        "standardized": {
            "kind": "inference_engine",
            "tool": "vllm",
            "tool_version": version_of_runtime(manifest.runtime),
            "role": "replica",
            "replicas": 1,
            "model": {"name": manifest.target_model},
            "accelerator": _accelerator(manifest),
        },
        "native": native,
    }


def _accelerator(manifest: Manifest) -> Document:
    return {
        "model": manifest.hardware.accelerator,
        "count": manifest.accelerators_needed,
        "parallelism": {"tp": manifest.serving.tensor_parallel_size},
    }


def _load(outline: Outline, run: RunEvidence) -> Document:
    point = next(p for p in outline.manifest.loads if p.name == run.load)
    trace = next((w.trace for w in outline.manifest.workloads if w.name == run.workload), None)
    native: Document = {"config": {"workload": run.workload, "trace": trace, "load": point.model_dump(mode="json")}}
    lengths = [o.prompt_tokens for o in run.observations if o.prompt_tokens is not None]
    return {
        "metadata": {"cfg_id": digest(canonical_json(native)), "description": f"{run.workload}: {point.offered}"},
        "standardized": {
            "tool": TOOL,
            "tool_version": ANALYSIS_VERSION,
            "source": "sampled",
            "input_seq_len": _sequence_length(lengths),
            "rate_qps": point.rate_rps,
            "concurrency": point.clients,
        },
        "native": native,
    }


def _sequence_length(lengths: Sequence[int]) -> Document:
    if not lengths:
        return {"distribution": "other", "value": 0}
    spread = {"std_dev": float(np.std(lengths)), "min": min(lengths), "max": max(*lengths, 1)}
    return {"distribution": "other", "value": float(np.mean(lengths)), **spread}


def _aggregate(run: RunEvidence) -> Document:
    seen = answers(run.observations)
    served = [answer for answer in seen if answer.served]
    early = sum(o.outcome in ENDED_EARLY for o in run.observations)
    return {
        "requests": {
            "total": len(seen),
            "failures": len(seen) - len(served) - early,
            "incomplete": early,
            "input_length": _statistics([a.input_tokens for a in served], "count"),
            "output_length": _statistics([a.output_tokens for a in served], "count"),
        },
        "latency": _latency(served),
        "throughput": _throughput(served, duration_s(run.observations)),
    }


def _latency(served: Sequence[Answer]) -> Document:
    per_token = [a.latency_s / a.output_tokens for a in served if a.output_tokens]
    tpots = [tpot for a in served if (tpot := a.tpot_s) is not None]
    return {
        "time_to_first_token": _statistics([a.ttft_s for a in served], "s"),
        "normalized_time_per_output_token": _statistics(per_token, "s/token"),
        "time_per_output_token": _statistics(tpots, "s/token"),
        "inter_token_latency": _statistics([gap for a in served for gap in a.itl_s], "s/token"),
        "request_latency": _statistics([a.latency_s for a in served], "s"),
    }


def _throughput(served: Sequence[Answer], seconds: float) -> Document:
    taken, given = sum(a.input_tokens for a in served), sum(a.output_tokens for a in served)
    rates = {
        "input_token_rate": (taken, "tokens/s"),
        "output_token_rate": (given, "tokens/s"),
        "total_token_rate": (taken + given, "tokens/s"),
        "request_rate": (len(served), "queries/s"),
    }
    return {name: {"units": units, "mean": per_second(amount, seconds)} for name, (amount, units) in rates.items()}


def _statistics(values: Sequence[float], units: str) -> Document | None:
    """``None`` of nothing: a mean has to be there."""
    if not values:
        return None
    found = np.asarray(values, dtype=np.float64)
    quantiles = zip(QUANTILES, np.percentile(found, [*QUANTILES.values()]).tolist(), strict=True)
    ends = {"min": float(found.min()), **dict(quantiles), "max": float(found.max())}
    return {"units": units, "mean": float(found.mean()), "stddev": float(found.std()), **ends}


def _ours(outline: Outline, run: RunEvidence) -> dict[str, Any]:
    counts = sum(map(draft_counts, run.observations), DraftCounts())
    served = [o for o in run.observations if o.outcome is Outcome.SUCCESS]
    return {
        **place_of(outline, run)._asdict(),
        "definitions": DEFINITIONS,
        "outcomes": dict(sorted(Counter(str(o.outcome) for o in run.observations).items())),
        "from_due": _from_due(served),
        "speculation": {
            "drafts": counts.drafts,
            "drafted_tokens": counts.drafted,
            "accepted_tokens": counts.accepted,
            "acceptance_rate": counts.accepted / counts.drafted if counts.drafted else None,
            "mean_length_incl": mean_length_incl(counts),
        },
    }


def _from_due(served: Sequence[RequestObservation]) -> Document:
    samples_ns = {
        "ttft": [value for o in served if (value := ttft_ns(o)) is not None],
        "tpot": [value for o in served if (value := tpot_ns(o)) is not None],
        "itl_chunk": [gap for o in served for gap in itl_chunk_ns(o)],
        "e2e": [value for o in served if (value := e2e_ns(o)) is not None],
    }
    latencies = {name: _statistics([v / NS_PER_S for v in values], "s") for name, values in samples_ns.items()}
    return {**latencies, "output_tokens": sum(map(output_tokens, served))}
