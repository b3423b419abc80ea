"""aiperf: a dozen processes over ZeroMQ; here one worker and one record processor for the one core."""

import json
from dataclasses import dataclass
from typing import Any

from benchmarks.replay.clients.place import ALONE, NS_PER_MS, PROMPT_TOKENS, command, results_of
from benchmarks.replay.offer import Offer, Reported

_RECORDS = "profile_export.jsonl"


@dataclass(frozen=True, slots=True)
class Aiperf:
    name: str = "aiperf"

    def prepare(self, offer: Offer) -> None:
        """Nothing: it makes its prompts itself."""

    def argv(self, offer: Offer) -> tuple[str, ...]:
        return (
            *(command("aiperf"), "profile", "--model", offer.model, "--url", offer.base_url),
            *("--endpoint-type", "completions", "--streaming", "--tokenizer", str(offer.tokenizer)),
            *("--isl", str(PROMPT_TOKENS), "--isl-stddev", "0", "--osl", str(offer.tokens), "--osl-stddev", "0"),
            *("--extra-inputs", "ignore_eos:true", "--num-dataset-entries", "16", "--use-server-token-count"),
            *("--request-rate", str(offer.rate_rps), "--arrival-pattern", "constant"),
            *("--request-count", str(offer.requests), "--workers-max", "1", "--record-processors", "1"),
            *("--no-gpu-telemetry", "--no-server-metrics", "--ui", "none", "--random-seed", "1"),
            *("--export-level", "records", "--output-artifact-dir", str(offer.directory)),
        )

    def environment(self) -> dict[str, str]:
        # Told to be offline it looks for tokenizers in the hub's cache only, so the hub is nowhere instead.
        alone = {name: value for name, value in ALONE.items() if not name.endswith("_OFFLINE")}
        return alone | {
            "HF_ENDPOINT": "http://127.0.0.1:9",
            "AIPERF_DATASET_PREFORMAT_PAYLOADS": "true",  # bodies are encoded before the run, not in it
            "AIPERF_HTTP_CONNECTION_LIMIT": "65000",
        }

    @results_of(name)
    def reported(self, offer: Offer) -> Reported:
        lines = (offer.directory / _RECORDS).read_text().splitlines()
        records: list[dict[str, Any]] = [json.loads(line) for line in lines]
        served = [record for record in records if not record.get("error")]
        measured: list[dict[str, Any]] = [record["metrics"] for record in served]
        return Reported(
            ttft_ns=tuple(round(metrics["time_to_first_token"]["value"] * NS_PER_MS) for metrics in measured),
            gaps_ns=tuple(gap_ms * NS_PER_MS for metrics in measured for gap_ms in _gaps_ms(metrics)),
            request_ids=tuple(record["metadata"]["x_request_id"] for record in served),
        )


def _gaps_ms(metrics: dict[str, Any]) -> list[float]:
    """An answer of one chunk has none, and then the metric is not there."""
    return metrics["inter_chunk_latency"]["value"] if "inter_chunk_latency" in metrics else []
