"""Freeze the experiments of this project on a GPU, pinned to the host it runs on: manifest and traces in one directory.

``published`` is the paired experiment that others published: prompt lookup against ordinary decoding, three blocks in
both orders, 384 measured requests and 96 warm-ups. ``crossover`` asks at which load speculation stops helping.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tokenizers import Tokenizer

from app.domain.errors import DomainError
from app.domain.manifest import Manifest, parse_manifest
from app.domain.trace import Trace
from app.settings import Settings
from benchmarks.gpu import workloads
from worker.identity import hardware, inspect_runtime, software
from worker.models import digest_cache, model_digest

CELLS: Final[Mapping[str, int]] = {"c1": 1, "c8": 8}
"""Load → clients."""
RATES: Final[Mapping[str, float]] = {"r2": 2.0, "r8": 8.0, "r24": 24.0, "r48": 48.0, "r96": 96.0}
"""Load → requests/s, from idle through saturation."""
LATENCY_RPS_MAX: Final = 8.0
BELOW_FLOOR: Final = (
    "the newest vLLM for the torch that this machine's image brings; nothing but this experiment reaches it"
)
SERVING: Final = {"dtype": "bfloat16", "max_model_len": 1024, "max_num_seqs": 64, "prefix_caching": False}
SLO: Final = {"ttft_ms": 200, "tpot_ms": 15, "e2e_ms": 2000}
TARGET_ONLY: Final = {"name": "target-only", "speculation": {"method": "target_only"}}
HEAD_OF: Final = "the small model of which the target is a widened copy: the same function"


@dataclass(frozen=True, slots=True)
class Host:
    """References of what is on this host."""

    settings: Settings
    runtime: str
    target: str

    def model(self, alias: str) -> str:
        """The reference of a model directory as it is now."""
        directory = self.settings.model_root / alias
        if not directory.is_dir():
            raise DomainError.of("model", f"{alias} is not in {self.settings.model_root}", "put it there")
        return f"local:{alias}@sha256:{model_digest(directory, digest_cache(self.settings))}"

    def manifest(self, traces: Mapping[str, Trace], **fields: Any) -> Manifest:
        """A manifest pinned to this host."""
        target = self.model(self.target)
        document: dict[str, Any] = {
            "target_model": target,
            "target_tokenizer": target,
            "runtime": inspect_runtime(self.settings.runtime_root / self.runtime).ref,
            "engine_below_floor": BELOW_FLOOR,
            "serving": SERVING,
            "sampling": {"temperature": 0},
            "hardware": hardware().model_dump(),
            "software": software().model_dump(),
            "workloads": [
                {"name": name, "trace": trace.digest, "quality": {"scorer": "exact"}} for name, trace in traces.items()
            ],
            "schedule_seed": workloads.SEED,
            "slo": SLO,
        }
        return parse_manifest(document | fields)


def published(host: Host, tokenizer: Tokenizer, blocks: int) -> tuple[Manifest, Mapping[str, Trace]]:
    """Prompt lookup against ordinary decoding; right answers are declared beforehand: exact, margin two points."""
    traces = workloads.published(tokenizer, CELLS)
    ngram = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2, "prompt_lookup_max": 5}
    manifest = host.manifest(
        traces,
        name="published-pair",
        arms=[TARGET_ONLY, {"name": "ngram-k4", "speculation": ngram}],
        loads=[
            {
                "name": name,
                "kind": "closed_loop",
                "clients": clients,
                "regime": "latency" if clients == 1 else "serving",
            }
            for name, clients in CELLS.items()
        ],
        blocks=blocks,
    )
    return manifest, traces


def crossover(host: Host, tokenizer: Tokenizer, blocks: int) -> tuple[Manifest, Mapping[str, Trace]]:
    """A draft and a head against the target on the same model runner; the target as it is deployed beside them."""
    traces = workloads.crossover(tokenizer, RATES)
    draft = {"method": "draft_model", "num_speculative_tokens": 4}
    head = {"method": "eagle", "num_speculative_tokens": 3}
    made_for = {"provenance": {"target_revision": HEAD_OF}}
    manifest = host.manifest(
        traces,
        name="crossover",
        arms=[
            TARGET_ONLY,
            {"name": "target-only-as-deployed", "as_deployed": True, "speculation": {"method": "target_only"}},
            {"name": "draft-k4", "draft_or_speculator": host.model("small-draft"), "speculation": draft, **made_for},
            {"name": "eagle-k3", "draft_or_speculator": host.model("small-eagle"), "speculation": head, **made_for},
        ],
        loads=[
            {"name": name, "regime": "latency" if rate <= LATENCY_RPS_MAX else "serving", "rate_rps": rate}
            for name, rate in RATES.items()
        ],
        blocks=blocks,
    )
    return manifest, traces


Freeze = Callable[[Host, Tokenizer, int], tuple[Manifest, Mapping[str, Trace]]]
EXPERIMENTS: Final[Mapping[str, tuple[Freeze, int]]] = {"published": (published, 3), "crossover": (crossover, 5)}


def main(arguments: Sequence[str] | None = None) -> None:
    """``python -m benchmarks.gpu.experiments published --out DIRECTORY --runtime gpu --target small-wide``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", choices=sorted(EXPERIMENTS))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runtime", required=True, help="as `verdraft runtime list` shows it")
    parser.add_argument("--target", required=True, help="alias in the model directory")
    parser.add_argument("--blocks", type=int)
    asked = parser.parse_args(arguments)
    settings = Settings()
    freeze, blocks = EXPERIMENTS[asked.experiment]
    tokenizer = Tokenizer.from_file(str(settings.model_root / asked.target / "tokenizer.json"))
    manifest, traces = freeze(Host(settings, asked.runtime, asked.target), tokenizer, asked.blocks or blocks)
    asked.out.mkdir(parents=True, exist_ok=True)
    for name, trace in traces.items():
        (asked.out / f"{name}.jsonl").write_bytes(trace.encode())
    (asked.out / "manifest.json").write_bytes(manifest.canonical())
    requests = sum(len(trace.requests) - trace.header.warmup_requests for trace in traces.values())
    measured = requests * len(manifest.arms) * manifest.blocks
    print(f"{manifest.name} {manifest.digest}: {measured} measured requests")  # noqa: T201  (the command's answer)


if __name__ == "__main__":
    main()
