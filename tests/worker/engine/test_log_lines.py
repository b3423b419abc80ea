"""Log lines of real engines: what failed and why, and what memory was taken."""

from pathlib import Path

import pytest

from app.domain.vocabulary import FailureClass
from worker.engine.log_lines import classify_failure, memory, redact

FIXTURES = Path(__file__).parents[2] / "fixtures" / "engine"


def log(name: str) -> str:
    return (FIXTURES / f"{name}.log").read_text()


@pytest.mark.parametrize(
    ("name", "failure_class", "message"),
    [
        ("draft_vocab_mismatch", "CONFIG", "Target and draft model should have the same vocabulary size."),
        ("dspark", "CONFIG", "Model Runner V1 does not support: dspark speculative decoding"),
        ("mtp_llama", "CONFIG", "NotImplementedError: Unsupported speculative method: 'mtp'"),
        ("eagle3", "ENGINE_DEAD", "RuntimeError: shape '[-1, 576]' is invalid for input of size 1536"),
        ("draft_synth_len", "ENGINE_DEAD", "AssertionError: Synthetic acceptance not supported with CPU sampling"),
        ("ngram_gpu", "ENGINE_DEAD", "RuntimeError: pin_memory=True requires a CUDA or other accelerator backend"),
    ],
)
def test_the_cause_is_found_and_not_its_echo(name: str, failure_class: str, message: str) -> None:
    failure = classify_failure(log(f"failure_{name}"), exit_code=1)
    assert failure.failure_class == failure_class
    assert failure.message.startswith(message)


@pytest.mark.parametrize(
    ("text", "exit_code", "expected"),
    [
        ("", -9, FailureClass.OOM),
        ("", 137, FailureClass.OOM),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", 1, FailureClass.OOM),
        ("ValueError: No available memory for the cache blocks. Try increasing", 1, FailureClass.OOM),
        ("vllm serve: error: unrecognized arguments: --nope", 2, FailureClass.CONFIG),
        ("", -11, FailureClass.ENGINE_DEAD),
    ],
)
def test_failure_classes(text: str, exit_code: int, expected: FailureClass) -> None:
    assert classify_failure(text, exit_code).failure_class is expected


def test_after_readiness_no_failure_is_a_configuration_error() -> None:
    assert classify_failure("ValueError: x", 1, was_ready=True).failure_class is FailureClass.ENGINE_DEAD


def test_a_silent_death_says_its_exit_code() -> None:
    assert "code -11" in classify_failure("", -11).message


def test_memory_of_a_cpu_engine() -> None:
    assert memory(log("ngram_startup")) == {
        "kv_cache_set_gib": "1.0",
        "kv_cache_tokens": "699,008",
        "max_concurrency": "682.62x",
        "init_engine_s": "0.41",
    }


def test_memory_of_a_gpu_engine() -> None:
    found = memory(log("gpu_draft_startup"))
    assert found["model_load_gib"] == "12.06"
    assert found["kv_cache_available_gib"] == "54.14"
    assert found["kv_cache_tokens"] == "1,669,792"
    assert found["cuda_graphs_gib"] == "0.46"
    assert found["device_free_gib"] == "139.29/139.8"
    assert (found["weights_gib"], found["non_torch_gib"], found["activation_peak_gib"]) == ("12.06", "0.23", "3.1")
    assert (found["cuda_graph_pool_gib"], found["kv_cache_in_use_gib"]) == ("0.46", "54.14")
    assert (found["init_engine_s"], found["compilation_s"]) == ("56.24", "34.81")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("token=hf_abcdefghijklmnopqrstuvwxyz", "abcdefghij"),
        ("Authorization: Bearer eyJhbGciOi.abc-def", "eyJhbGciOi"),
        ("GET https://alice:s3cret@example.org/x", "s3cret"),
        ("key AKIAIOSFODNN7EXAMPLE used", "IOSFODNN7"),
    ],
)
def test_secrets_are_redacted(text: str, secret: str) -> None:
    assert secret not in redact(text)
    assert "[redacted]" in redact(text)


def test_plain_text_is_left_as_it_is() -> None:
    text = "POST http://127.0.0.1:8000/v1 took 3:20, hf_hub is offline"
    assert redact(text) == text
