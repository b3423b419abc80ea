"""``vllm bench serve``: one asyncio process over aiohttp, from the engine's own runtime.

Its burstiness is the shape of a gamma distribution; at infinity it takes the mean itself, so arrivals are constant.
"""

import json
from dataclasses import dataclass
from typing import Any

from benchmarks.replay.clients.place import ALONE, NS_PER_S, PROMPT_TOKENS, ROOT, results_of
from benchmarks.replay.offer import Offer, Reported

_RESULT = "vllm.json"
_PREFIX = "bench-"


@dataclass(frozen=True, slots=True)
class VllmBench:
    name: str = "vllm bench serve"

    def prepare(self, offer: Offer) -> None:
        """Nothing: it makes its prompts itself."""

    def argv(self, offer: Offer) -> tuple[str, ...]:
        return (
            *(str(ROOT / ".runtimes" / "cpu" / "bin" / "vllm"), "bench", "serve", "--backend", "openai"),
            *("--base-url", offer.base_url, "--endpoint", "/v1/completions"),
            *("--model", offer.model, "--tokenizer", str(offer.tokenizer)),
            *("--dataset-name", "random", "--random-input-len", str(PROMPT_TOKENS)),
            *("--random-output-len", str(offer.tokens), "--ignore-eos", "--temperature", "0"),
            *("--num-prompts", str(offer.requests), "--request-rate", str(offer.rate_rps), "--burstiness", "inf"),
            *("--num-warmups", "0", "--ready-check-timeout-sec", "0", "--disable-tqdm"),
            *("--request-id-prefix", _PREFIX),
            *("--save-result", "--save-detailed", "--result-dir", str(offer.directory), "--result-filename", _RESULT),
        )

    def environment(self) -> dict[str, str]:
        return {**ALONE, "VLLM_NO_USAGE_STATS": "1", "VLLM_DO_NOT_TRACK": "1", "VLLM_LOGGING_LEVEL": "WARNING"}

    @results_of(name)
    def reported(self, offer: Offer) -> Reported:
        written: dict[str, Any] = json.loads((offer.directory / _RESULT).read_bytes())
        # A failed request keeps its place in every list, with no output tokens.
        served = [i for i, tokens in enumerate(written["output_lens"]) if tokens]
        return Reported(
            ttft_ns=tuple(round(written["ttfts"][i] * NS_PER_S) for i in served),
            gaps_ns=tuple(gap_s * NS_PER_S for i in served for gap_s in written["itls"][i]),
            request_ids=tuple(f"{_PREFIX}{i}" for i in served),
        )
