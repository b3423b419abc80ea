"""One file for each load generator: how it is asked for an offer, and how what it measured is read."""

from typing import Final

from benchmarks.replay.clients.aiperf import Aiperf
from benchmarks.replay.clients.evalscope import Evalscope
from benchmarks.replay.clients.guidellm import Guidellm
from benchmarks.replay.clients.inference_perf import InferencePerf
from benchmarks.replay.clients.verdraft import Verdraft
from benchmarks.replay.clients.vllm_bench import VllmBench
from benchmarks.replay.offer import LoadGenerator

CLIENTS: Final[tuple[LoadGenerator, ...]] = (
    Verdraft(),
    VllmBench(),
    Evalscope(),
    Aiperf(),
    InferencePerf(),
    Guidellm(),
)
