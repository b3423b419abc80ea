"""Memory lines of real engines, read by two parsers that know nothing of each other."""

from pathlib import Path

import pytest

from app.domain.memory import LoggedMemory
from worker.engine.log_lines import memory
from worker.engine.log_memory import GIB, logged_memory

LOGS = Path(__file__).parents[2] / "fixtures" / "engine" / "memory"


def logged(name: str) -> LoggedMemory:
    return logged_memory((LOGS / f"{name}.log").read_text())


def gib(*values: float) -> tuple[int, ...]:
    return tuple(round(value * GIB) for value in values)


def test_target_only_of_the_second_runner() -> None:
    assert logged("h200-target") == LoggedMemory(
        load=gib(12.05),
        non_torch=gib(0.22),
        activations=gib(3.1),
        graphs=gib(0.21),
        kv_cache=gib(54.52),
        kv_tokens=1_786_608,
        max_concurrency=872.37,
        device_total=gib(139.8),
        device_free=gib(139.29),
        requested=gib(69.9),
        checkpoints=gib(12.05),
    )


def test_a_draft_model_of_the_first_runner() -> None:
    assert logged("h200-draft-model") == LoggedMemory(
        load=gib(12.06),
        non_torch=gib(0.23),
        activations=gib(3.1),
        graphs=gib(0.46),
        graphs_estimated=gib(0.37),
        estimate_counts=True,
        kv_cache=gib(54.14),
        kv_tokens=1_669_792,
        max_concurrency=815.33,
        device_total=gib(139.8),
        device_free=gib(139.29),
        requested=gib(69.9),
        checkpoints=gib(12.05, 0.0),
    )


def test_a_cpu_engine_says_little() -> None:
    assert logged("cpu-draft-model") == LoggedMemory(
        kv_cache=gib(1.0), kv_tokens=599_168, max_concurrency=585.12, checkpoints=gib(0.01, 0.0), eager=True
    )


def test_what_a_draft_takes_from_its_target() -> None:
    assert logged("cpu-eagle3").shared == ("embedding", "lm_head")
    assert logged("h200-eagle").shared == ()


@pytest.mark.parametrize(
    ("name", "tokens", "kv_gib", "graphs_gib"),
    [
        ("h200-target", "1,786,608", "54.52", "0.21"),
        ("h200-ngram", "1,772,144", "54.08", "0.45"),
        ("h200-draft-model", "1,669,792", "54.14", "0.46"),
        ("h200-eagle", "1,732,256", "54.52", "0.65"),
    ],
)
def test_two_parsers_read_the_same(name: str, tokens: str, kv_gib: str, graphs_gib: str) -> None:
    flat, told = memory((LOGS / f"{name}.log").read_text()), logged(name)
    assert (flat["kv_cache_tokens"], flat["kv_cache_available_gib"], flat["cuda_graphs_gib"]) == (
        tokens,
        kv_gib,
        graphs_gib,
    )
    printed = {
        "model_load_gib": told.load,
        "kv_cache_available_gib": told.kv_cache,
        "kv_cache_in_use_gib": told.kv_cache,
        "cuda_graphs_gib": told.graphs,
        "weights_gib": told.load,
        "non_torch_gib": told.non_torch,
        "activation_peak_gib": told.activations,
    }
    assert {name: gib(float(flat[name])) for name in printed} == printed
    assert int(flat["kv_cache_tokens"].replace(",", "")) == told.kv_tokens
    assert float(flat["max_concurrency"].removesuffix("x")) == told.max_concurrency
    free, total = flat["device_free_gib"].split("/")
    assert (gib(float(free)), gib(float(total))) == (told.device_free, told.device_total)


@pytest.mark.parametrize("name", ["cpu-ngram", "cpu-draft-model", "cpu-eagle3"])
def test_two_parsers_read_the_same_of_a_cpu(name: str) -> None:
    flat, told = memory((LOGS / f"{name}.log").read_text()), logged(name)
    assert gib(float(flat["kv_cache_set_gib"])) == told.kv_cache == gib(1.0)
    assert int(flat["kv_cache_tokens"].replace(",", "")) == told.kv_tokens


def test_each_rank_has_a_figure_of_its_own() -> None:
    """Copies of tensor parallelism, in the form in which the worker processes name themselves."""
    told = logged_memory(
        "(Worker_TP0 pid=7) INFO 11-30 10:00:00 [gpu_model_runner.py:1] Model loading took 6.03 GiB memory and 3.2 s\n"
        "(Worker_TP1 pid=8) INFO 11-30 10:00:00 [gpu_model_runner.py:1] Model loading took 6.04 GiB memory and 3.3 s\n"
        "(Worker_TP0 pid=7) INFO 11-30 10:00:09 [gpu_worker.py:1] Available KV cache memory: 50.0 GiB\n"
    )
    assert told.load == gib(6.03, 6.04)
    assert told.kv_cache == gib(50.0)


def test_the_newer_words_for_what_was_consumed() -> None:
    """As 0.27 to 0.33 print it: weights and what is not torch's in one figure."""
    told = logged_memory(
        "(EngineCore pid=7) INFO 11-30 10:00:00 [gpu_worker.py:1] Free memory on device (139.29/139.8 GiB) on startup. "
        "Desired GPU memory utilization is (0.5, 69.9 GiB). Actual usage is 12.28 GiB for consumed memory (weights + "
        "non-torch), 3.47 GiB for peak activation, and 0.46 GiB for CUDAGraph memory. Replace gpu_memory_utilization\n"
    )
    assert (told.consumed, told.activations, told.non_torch) == (gib(12.28), gib(3.47), ())
    assert told.requested == gib(69.9)


@pytest.mark.parametrize(
    "line",
    [
        "Explicitly set (1.0/22.71) GiB for KV cache on node 0.",
        "Auto set (1.0/22.71) GiB for KV cache on node 0, with 3.0 GiB requested memory for the worker. 2.0 GiB memory",
        "Initial free memory 139.29 GiB, reserved 1.0 GiB memory for KV Cache as specified by kv_cache_memory_bytes",
        "Available KV cache memory: 1.0 GiB",
    ],
)
def test_every_way_to_state_the_cache(line: str) -> None:
    assert logged_memory(f"(Worker pid=1) INFO 11-29 15:41:39 [cpu_worker.py:260] {line}\n").kv_cache == gib(1.0)


def test_an_empty_log_says_nothing() -> None:
    assert logged_memory("") == LoggedMemory()
