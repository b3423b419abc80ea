"""guidellm: a scheduler process and worker processes over httpx, here one worker for the one core.

It keeps the first and the last token's time of a request and how many there were, so its gaps are means.
"""

import json
from dataclasses import dataclass
from typing import Any

from benchmarks.replay.clients.place import ALONE, NS_PER_MS, PROMPT, command, results_of
from benchmarks.replay.offer import Offer, Reported

_SCENARIO, _RESULT = "scenario.json", "guidellm.json"


@dataclass(frozen=True, slots=True)
class Guidellm:
    name: str = "guidellm"

    def prepare(self, offer: Offer) -> None:
        (offer.directory / _SCENARIO).write_text(json.dumps({"spec": self._spec(offer)}))

    def argv(self, offer: Offer) -> tuple[str, ...]:
        return (command("guidellm"), "run", "--config", str(offer.directory / _SCENARIO), "--disable-console")

    def environment(self) -> dict[str, str]:
        return {**ALONE, "GUIDELLM__MAX_WORKER_PROCESSES": "1"}

    @results_of(name)
    def reported(self, offer: Offer) -> Reported:
        written: dict[str, Any] = json.loads((offer.directory / _RESULT).read_bytes())
        served: list[dict[str, Any]] = written["benchmarks"][0]["requests"]["successful"]
        means_ms: list[float | None] = [request["inter_token_latency_ms"] for request in served]
        return Reported(
            ttft_ns=tuple(round(request["time_to_first_token_ms"] * NS_PER_MS) for request in served),
            gaps_ns=tuple(mean_ms * NS_PER_MS for mean_ms in means_ms if mean_ms is not None),
            gaps_are_means=True,
        )

    def _spec(self, offer: Offer) -> dict[str, Any]:
        backend = {"kind": "openai_http", "target": offer.base_url, "model": offer.model}
        rows = {"prompt": [PROMPT] * offer.requests, "output_tokens_count": [offer.tokens] * offer.requests}
        return {
            "backend": backend | {"request_format": "/v1/completions", "http2": False, "validate_backend": False},
            "profile": {"kind": "constant", "rate": [offer.rate_rps]},
            "constraints": [{"kind": "max_requests", "count": offer.requests}],
            "tokenizer": {"kind": "huggingface_auto", "model": str(offer.tokenizer)},
            "data": [{"kind": "in_memory_dict", "data": rows}],
            # All rows are made before the first request, so that making them takes nothing from the run.
            "data_loader": {"kind": "pytorch", "samples": offer.requests},
            "outputs": [{"kind": "json", "path": str(offer.directory / _RESULT)}],
            # Texts are not kept; times are, of every request.
            "metrics": {"kind": "generative", "sample_size": 0},
        }
