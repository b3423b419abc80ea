"""One run as ``vllm bench serve --save-result --save-detailed`` writes it: its fields, units and definitions.

Lists are in seconds, summaries in milliseconds, the acceptance rate in percent. What ours mean instead, and what
vLLM's file has no field for, is in the one further member ``verdraft``.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from app.domain.evidence import CounterDeltas, RunEvidence
from app.domain.latency import e2e_ns, ttft_ns
from app.domain.manifest import Manifest, Slo
from app.domain.vocabulary import NS_PER_MS
from app.interop.exports.documents import Document
from app.interop.exports.from_sent import Answer, answers, busiest_second, duration_s, per_second
from app.interop.exports.outline import Outline
from app.interop.exports.rows import place_of

FORMAT: Final = "verdraft/vllm-bench/v0"
PERCENTILES: Final = (50, 90, 99)
MS_PER_S: Final = 1000
DEFINITIONS: Final = {
    "ttfts, latencies, itls": "from the send, as vLLM does; verdraft counts from the due time: see from_due",
    "itls": "between reads that carried tokens; vLLM also stamps messages with an empty text",
    "completed": "an answer with finish reason and [DONE]; vLLM also counts one that was cut off",
    "start_times": "from the start of the replay; of a request that was never sent, when it was due",
    "queue_times": "sent less due: what the request waited in the client",
    "input_lens": "the server's count; 0 where it told none",
    "request_goodput": "by the manifest's objectives, but from the send",
    "spec_decode_*": "differences of the engine's counters over this run; absent where nothing was drafted",
    "date": "empty: evidence holds no wall clock",
    "burstiness": "null: the arrivals are the trace's own",
}


def vllm_document(outline: Outline, run: RunEvidence) -> Document:
    """The run as vLLM's file has it."""
    seen, seconds = answers(run.observations), duration_s(run.observations)
    return {
        **_setup(outline.manifest, run),
        **_totals(seen, seconds, outline.manifest.slo),
        **_lists(seen, run),
        **_peaks(seen),
        **_speculation(run.counters),
        **_summaries([a for a in seen if a.served]),
        "verdraft": _ours(outline, run),
    }


def _setup(manifest: Manifest, run: RunEvidence) -> Document:
    load = next(point for point in manifest.loads if point.name == run.load)
    return {
        "date": "",
        "endpoint_type": "verdraft",
        "backend": "verdraft",
        "label": run.arm,
        "model_id": manifest.target_model,
        "tokenizer_id": manifest.target_tokenizer,
        "num_prompts": len(run.observations),
        "request_rate": "inf" if load.rate_rps is None else load.rate_rps,
        "burstiness": None,
        "max_concurrency": load.clients,
    }


def _totals(seen: Sequence[Answer], seconds: float, slo: Slo) -> Document:
    served = [answer for answer in seen if answer.served]
    taken, given = sum(a.input_tokens for a in served), sum(a.output_tokens for a in served)
    return {
        "duration": seconds,
        "completed": len(served),
        "failed": len(seen) - len(served),
        "total_input_tokens": taken,
        "total_output_tokens": given,
        "request_throughput": per_second(len(served), seconds),
        "request_goodput": per_second(sum(_is_good(a, slo) for a in served), seconds),
        "output_throughput": per_second(given, seconds),
        "total_token_throughput": per_second(taken + given, seconds),
    }


def _lists(seen: Sequence[Answer], run: RunEvidence) -> Document:
    return {
        "input_lens": [a.input_tokens for a in seen],
        "output_lens": [a.output_tokens for a in seen],
        "ttfts": [a.ttft_s for a in seen],
        "itls": [[*a.itl_s] for a in seen],
        "latencies": [a.latency_s for a in seen],
        "start_times": [a.start_s for a in seen],
        "queue_times": [a.queue_s for a in seen],
        "generated_texts": [o.text for o in run.observations],
        "errors": ["" if a.served else o.error or str(o.outcome) for a, o in zip(seen, run.observations, strict=True)],
    }


def _peaks(seen: Sequence[Answer]) -> Document:
    chunks, alive = busiest_second([answer for answer in seen if answer.served])
    return {"max_output_tokens_per_s": chunks, "max_concurrent_requests": alive, "rtfx": 0.0}


def _speculation(counters: CounterDeltas | None) -> Document:
    """As vLLM does: nothing at all where nothing was drafted."""
    if counters is None or not counters.spec_decode_num_draft_tokens or not counters.spec_decode_num_drafts:
        return {}
    drafts, drafted = counters.spec_decode_num_drafts, counters.spec_decode_num_draft_tokens
    accepted = counters.spec_decode_num_accepted_tokens or 0
    return {
        "spec_decode_acceptance_rate": accepted / drafted * 100,
        "spec_decode_acceptance_length": 1 + accepted / drafts,
        "spec_decode_num_drafts": drafts,
        "spec_decode_draft_tokens": drafted,
        "spec_decode_accepted_tokens": accepted,
        "spec_decode_per_position_acceptance_rates": [
            at / drafts for at in counters.spec_decode_num_accepted_tokens_per_pos or ()
        ],
    }


def _summaries(served: Sequence[Answer]) -> Document:
    samples = {
        "ttft": [a.ttft_s for a in served],
        "tpot": [tpot for a in served if (tpot := a.tpot_s) is not None],
        "itl": [gap for a in served for gap in a.itl_s],
        "e2el": [a.latency_s for a in served],
    }
    return {key: value for name, values in samples.items() for key, value in _summary(name, values)}


def _summary(name: str, values_s: Sequence[float]) -> Iterator[tuple[str, float]]:
    """By numpy's own quantiles, which vLLM takes; 0 of nothing, as there."""
    values = np.asarray(values_s or [0.0]) * MS_PER_S
    yield f"mean_{name}_ms", float(values.mean())
    yield f"median_{name}_ms", float(np.median(values))
    yield f"std_{name}_ms", float(values.std())
    for percentile in PERCENTILES:
        yield f"p{percentile}_{name}_ms", float(np.percentile(values, percentile))


def _is_good(answer: Answer, slo: Slo) -> bool:
    """As in vLLM's goodput, a TPOT that is undefined counts as 0."""
    limits = (slo.ttft_ms, slo.tpot_ms, slo.e2e_ms)
    taken_s = (answer.ttft_s, answer.tpot_s or 0.0, answer.latency_s)
    return all(taken * MS_PER_S <= limit for taken, limit in zip(taken_s, limits, strict=True))


def _ours(outline: Outline, run: RunEvidence) -> dict[str, Any]:
    due = {"ttfts_ms": ttft_ns, "latencies_ms": e2e_ns}
    strata = outline.strata(run.workload)
    return {
        "format": FORMAT,
        **place_of(outline, run)._asdict(),
        "definitions": DEFINITIONS,
        "request_ids": [o.request_id for o in run.observations],
        "strata": [{**strata.get(o.request_id, {})} for o in run.observations],
        "outcomes": dict(sorted(Counter(str(o.outcome) for o in run.observations).items())),
        "from_due": {
            name: [None if (value := measure(o)) is None else value / NS_PER_MS for o in run.observations]
            for name, measure in due.items()
        },
    }
