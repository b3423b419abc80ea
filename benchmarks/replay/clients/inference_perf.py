"""inference-perf: worker processes over aiohttp, here one worker for the one core.

Its ``constant`` load draws exponential intervals, so constant arrivals are given to it as a trace to replay.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from benchmarks.replay.clients.place import ALONE, NS_PER_S, PROMPT_TOKENS, command, results_of
from benchmarks.replay.offer import Offer, Reported

_CONFIGURATION, _TRACE, _REPORTS = "inference-perf.json", "arrivals.csv", "reports"
_TRACE_BEGINS = datetime(2026, 1, 1, tzinfo=UTC)
_PROMPTS = 64
"""Made before the run and sent in turn."""


@dataclass(frozen=True, slots=True)
class InferencePerf:
    name: str = "inference-perf"

    def prepare(self, offer: Offer) -> None:
        (offer.directory / _TRACE).write_text(_arrivals(offer))
        # JSON is YAML, which it reads.
        (offer.directory / _CONFIGURATION).write_text(json.dumps(_configuration(offer)))

    def argv(self, offer: Offer) -> tuple[str, ...]:
        return (command("inference-perf"), "--config_file", str(offer.directory / _CONFIGURATION))

    def environment(self) -> dict[str, str]:
        return dict(ALONE)

    @results_of(name)
    def reported(self, offer: Offer) -> Reported:
        written = (offer.directory / _REPORTS / "per_request_lifecycle_metrics.json").read_bytes()
        served: list[dict[str, Any]] = [request for request in json.loads(written) if request["error"] is None]
        times_s: list[list[float]] = [request["info"]["response_metrics"]["chunk_times"] for request in served]
        started_s: list[float] = [request["start_time"] for request in served]
        return Reported(
            ttft_ns=tuple(round((times[0] - s) * NS_PER_S) for s, times in zip(started_s, times_s, strict=True)),
            gaps_ns=tuple((after - before) * NS_PER_S for times in times_s for before, after in pairwise(times)),
        )


def _arrivals(offer: Offer) -> str:
    """A trace in the columns of Azure's public one, to the microsecond."""
    moments = (_TRACE_BEGINS + timedelta(seconds=i / offer.rate_rps) for i in range(offer.requests))
    rows = (f"{moment:%Y-%m-%d %H:%M:%S.%f},{PROMPT_TOKENS},{offer.tokens}\n" for moment in moments)
    return "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(rows)


def _configuration(offer: Offer) -> dict[str, Any]:
    return {
        "api": {"type": "completion", "streaming": True},
        "server": {"type": "vllm", "model_name": offer.model, "base_url": offer.base_url, "ignore_eos": True},
        "tokenizer": {"pretrained_model_name_or_path": str(offer.tokenizer)},
        "data": {"type": "shared_prefix", "shared_prefix": _prompts(offer)},
        "load": _load(offer),
        "report": {"request_lifecycle": _records()},
        "storage": {"local_storage": {"path": str(offer.directory / _REPORTS)}},
    }


def _prompts(offer: Offer) -> dict[str, int]:
    """Of its generators the one that makes prompts before the run; the others make each while others are in flight."""
    groups = {"num_unique_system_prompts": 1, "num_users_per_system_prompt": _PROMPTS, "seed": 1}
    half = PROMPT_TOKENS // 2
    return groups | {"system_prompt_len": half, "question_len": PROMPT_TOKENS - half, "output_len": offer.tokens}


def _load(offer: Offer) -> dict[str, Any]:
    return {
        "type": "trace_replay",
        "trace": {"file": str(offer.directory / _TRACE), "format": "AzurePublicDataset"},
        # When each is due is the trace's; the stage only says how many: rate x duration.
        "stages": [{"rate": offer.requests, "duration": 1}],
        "interval": 0,
        "num_workers": 1,
        "worker_max_concurrency": offer.requests,
        "worker_max_tcp_connections": offer.requests,
        "base_seed": 1,
    }


def _records() -> dict[str, Any]:
    """Times of every request, without texts and without the summaries that tokenize all answers again."""
    kept = {"request": False, "response": False, "response_chunks": False, "info": True, "computed_metrics": False}
    return {"summary": False, "per_stage": False, "per_adapter": False, "per_request": True, "per_request_fields": kept}
