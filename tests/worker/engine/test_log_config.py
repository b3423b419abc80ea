"""What logs state of a configuration: real lines of several versions, nested as Python prints them."""

from pathlib import Path

import pytest

from worker.engine.log_config import logged_config, model_runner

FIXTURES = Path(__file__).parents[2] / "fixtures" / "engine"
GIVEN = "(APIServer pid=1) INFO 11-29 15:41:25 [api_utils.py:286] non-default args: "
RESOLVED = "(EngineCore pid=1) INFO 11-29 15:41:31 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: "


def log(name: str) -> str:
    return (FIXTURES / f"{name}.log").read_text()


def test_the_settings_of_a_real_engine() -> None:
    found = logged_config(log("ngram_configuration"))
    assert found["speculative_config.method"] == "ngram"
    assert found["speculative_config.num_spec_tokens"] == "4"
    assert found["dtype"] == "torch.bfloat16"
    assert found["max_seq_len"] == "1024"
    assert found["enable_prefix_caching"] == "True"


def test_an_older_engine_on_a_gpu_states_the_same_names() -> None:
    found = logged_config(log("gpu_configuration"))
    assert (found["speculative_config.method"], found["speculative_config.num_spec_tokens"]) == ("draft_model", "4")
    assert found["compilation_config.mode"] == "<CompilationMode.VLLM_COMPILE: 3>"
    assert found["enable_prefix_caching"] == "False"
    assert not [key for key in found if " " in key or len(key) > 100]


def test_a_failed_start_still_states_its_arguments() -> None:
    found = logged_config(log("failed_configuration"))
    assert found["args.speculative_config.method"] == "dspark"
    assert found["args.max_model_len"] == "1024"
    assert "max_seq_len" not in found


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a=1, b='x, y', c=None", {"a": "1", "b": "x, y", "c": "None"}),
        ("s=Some(p='q', r=[1, 2]), t=3", {"s.p": "q", "s.r": "[1, 2]", "t": "3"}),
        ("m={'mode': <Mode.FULL: (2, 1)>, 'sizes': []}", {"m.mode": "<Mode.FULL: (2, 1)>", "m.sizes": "[]"}),
        ("e={}, f=Nothing()", {"e": "{}", "f": "Nothing()"}),
        ("g={1: 2, 'h': 3}", {"g": "{1: 2, 'h': 3}"}),
        ("q='it\\'s, here', z=1", {"q": "it\\'s, here", "z": "1"}),
    ],
)
def test_nested_values_become_dotted_names(body: str, expected: dict[str, str]) -> None:
    assert logged_config(RESOLVED + body) == expected


def test_arguments_are_told_apart_from_settings() -> None:
    text = f"{GIVEN}{{'dtype': 'auto', 'speculative_config': {{'method': 'ngram'}}}}\n{RESOLVED}dtype=torch.float32"
    assert logged_config(text) == {
        "args.dtype": "auto",
        "args.speculative_config.method": "ngram",
        "dtype": "torch.float32",
    }


def test_secrets_are_redacted() -> None:
    assert "abcdefgh" not in str(logged_config(f"{GIVEN}{{'hf_token': 'hf_abcdefghijklmnop'}}"))


def test_a_log_that_says_nothing_gives_nothing() -> None:
    assert logged_config("ImportError: no vllm") == {}


def test_only_the_second_runner_is_announced() -> None:
    assert model_runner("INFO [gpu_worker.py:378] Using V2 Model Runner") == "V2"
    assert model_runner(log("ngram_startup")) == "V1"
