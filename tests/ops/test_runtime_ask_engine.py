"""The question itself, put to small stand-ins for the engine's modules: places move, names do not."""

import enum
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from worker.runtimes import ask_engine


class SkipValidation:
    """As pydantic marks what the engine fills itself."""


class Backend(enum.Enum):
    FAST = "fast.path"
    SLOW = "slow.path"


@dataclass
class SpeculativeConfig:
    """A version that has no draft sampling yet."""

    method: Literal["ngram", "eagle", "eagle3"] | None = None
    num_speculative_tokens: int | None = None
    rejection_sample_method: Literal["standard", "block"] = "standard"
    backend: Backend | None = None
    rates: list[float] | None = None
    schedule: list[tuple[int, int]] | None = None
    free_text: str = ""
    target_model_config: Annotated[int, SkipValidation] = 0


def _module(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    for depth in range(1, name.count(".") + 1):
        parent = ".".join(name.split(".")[:depth])
        if parent not in sys.modules:
            monkeypatch.setitem(sys.modules, parent, types.ModuleType(parent))
    module = types.ModuleType(name)
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.parametrize("place", ask_engine.CONFIG_PLACES)
def test_the_configuration_is_found_wherever_it_is(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    _module(monkeypatch, place, SpeculativeConfig=SpeculativeConfig)
    fields = ask_engine._speculative_fields()
    assert {name: ask_engine._readable(kind) for name, kind in fields.items()} == {
        "method": "'ngram' | 'eagle' | 'eagle3' | None",
        "num_speculative_tokens": "int | None",
        "rejection_sample_method": "'standard' | 'block'",
        "backend": "'FAST' | 'SLOW' | None",
        "rates": "list[float] | None",
        "schedule": "list[tuple[int, int]] | None",
        "free_text": "str",
    }
    assert ask_engine._choices(fields, "method") == ["ngram", "eagle", "eagle3"]


def test_what_is_nowhere_is_named_with_where_it_was_looked_for() -> None:
    with pytest.raises(LookupError, match=r"Thing is in none of: nowhere\.at\.all .*; also\.nowhere"):
        ask_engine._from(("nowhere.at.all", "also.nowhere"), "Thing")


def test_a_key_that_is_missing_or_names_no_values_is_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    _module(monkeypatch, "vllm.config", SpeculativeConfig=SpeculativeConfig)
    fields = ask_engine._speculative_fields()
    with pytest.raises(LookupError, match="no field draft_sample_method"):
        ask_engine._choices(fields, "draft_sample_method")
    with pytest.raises(LookupError, match="declared as str, which names no values"):
        ask_engine._choices(fields, "free_text")


def test_without_an_engine_everything_is_named_as_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    found = ask_engine.describe()
    assert {"methods", "serve_flags", "architectures", "version"} <= set(found["not_found"])
    assert found["methods"] == []
    assert found["python"]


def test_eagle3_support_is_inherited_through_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.py").write_text("class Base(nn.Module, SupportsEagle3): ...\nclass Other(nn.Module): ...\n")
    (tmp_path / "b.py").write_text("class Derived(a.Base): ...\nclass Loop(Loop): ...\n")
    monkeypatch.setattr(ask_engine, "_model_sources", lambda: sorted(tmp_path.glob("*.py")))
    entries = {
        "DerivedForCausalLM": types.SimpleNamespace(class_name="Derived"),
        "OtherForCausalLM": types.SimpleNamespace(class_name="Other"),
        "LoopForCausalLM": types.SimpleNamespace(class_name="Loop"),
    }
    _module(monkeypatch, "vllm.model_executor.models.registry", ModelRegistry=types.SimpleNamespace(models=entries))
    assert ask_engine._eagle3_architectures() == ["DerivedForCausalLM"]


def test_a_platform_may_rule_quantizations_out(monkeypatch: pytest.MonkeyPatch) -> None:
    _module(monkeypatch, "vllm.model_executor.layers.quantization", QUANTIZATION_METHODS=["awq", "fp8", "gptq"])
    _module(monkeypatch, "vllm.platforms", current_platform=types.SimpleNamespace(supported_quantization=["gptq"]))
    assert ask_engine._quantization_methods() == ["gptq"]
    _module(monkeypatch, "vllm.platforms", current_platform=types.SimpleNamespace(supported_quantization=[]))
    assert ask_engine._quantization_methods() == ["awq", "fp8", "gptq"]
