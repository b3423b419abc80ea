"""Where the memory of real servers goes: their logs, beside models of the same shapes."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from app.domain.memory import MemoryBreakdown, MemoryFacts, MemoryPart
from app.domain.memory_breakdown import breakdown, row_of, split_weights
from app.domain.vocabulary import Method
from tests.worker.model_directory import raw_safetensors
from worker.engine.log_config import logged_config
from worker.engine.log_memory import GIB
from worker.engine.memory import memory_facts

LOGS = Path(__file__).parents[2] / "fixtures" / "engine" / "memory"
VOCABULARY = 4096
TARGET = {"hidden_size": 512, "intermediate_size": 131_072, "num_hidden_layers": 32, "num_key_value_heads": 4}
DRAFT = {"hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 2, "num_key_value_heads": 4}
EAGLE = {"hidden_size": 512, "intermediate_size": 1216, "num_hidden_layers": 1, "num_key_value_heads": 4}
CPU_CONFIG = {
    "model_config.dtype": "torch.bfloat16",
    "device_config.device": "cpu",
    "cache_config.block_size": "128",
    "cache_config.kv_cache_memory_bytes": "1073741824",
    "cache_config.cache_dtype": "auto",
    "parallel_config.tensor_parallel_size": "1",
}


def llama(
    directory: Path, shape: dict[str, int], extra: dict[str, tuple[int, ...]] | None = None, **config: Any
) -> Path:
    """A Llama of that shape with tied embeddings, in bfloat16; the file is sparse, its header is real."""
    hidden, inner, keys = shape["hidden_size"], shape["intermediate_size"], shape["num_key_value_heads"] * 64
    tensors = {} if extra else {"model.embed_tokens.weight": (VOCABULARY, hidden), "model.norm.weight": (hidden,)}
    for layer in range(shape["num_hidden_layers"]):
        prefix = f"{'' if extra else 'model.'}layers.{layer}"
        tensors |= {
            f"{prefix}.self_attn.q_proj.weight": (hidden, hidden),
            f"{prefix}.self_attn.k_proj.weight": (keys, hidden),
            f"{prefix}.self_attn.v_proj.weight": (keys, hidden),
            f"{prefix}.self_attn.o_proj.weight": (hidden, hidden),
            f"{prefix}.mlp.gate_proj.weight": (inner, hidden),
            f"{prefix}.mlp.up_proj.weight": (inner, hidden),
            f"{prefix}.mlp.down_proj.weight": (hidden, inner),
            f"{prefix}.post_attention_layernorm.weight": (hidden,),
        } | ({} if extra else {f"{prefix}.input_layernorm.weight": (hidden,)})
    stated = {**shape, "head_dim": 64, "num_attention_heads": hidden // 64, "tie_word_embeddings": True, **config}
    return write(directory, tensors | (extra or {}), stated)


def write(directory: Path, tensors: dict[str, tuple[int, ...]], config: dict[str, Any]) -> Path:
    header: dict[str, Any] = {}
    end = 0
    for name, sides in tensors.items():
        size = 2
        for side in sides:
            size *= side
        header[name] = {"dtype": "BF16", "shape": list(sides), "data_offsets": [end, end := end + size]}
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps({"model_type": "llama", **config}))
    file = directory / "model.safetensors"
    file.write_bytes(raw_safetensors(header))
    os.truncate(file, file.stat().st_size + end)
    return directory


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """The target of the H200 logs: 6.47 B parameters."""
    return llama(tmp_path / "big", TARGET)


def facts(
    name: str, method: Method, target: Path, draft: Path | None = None, config: dict[str, str] | None = None
) -> MemoryFacts:
    log = (LOGS / f"{name}.log").read_text()
    return memory_facts(log, logged_config(log) | (config or {}), method=method, target=target, draft=draft)


def sizes(made: MemoryBreakdown) -> dict[str, int | None]:
    return {row.part.name: row.size_bytes for row in made.rows}


def source_of(made: MemoryBreakdown, part: MemoryPart) -> str:
    row = row_of(made, part)
    assert row is not None
    return row.source


def test_target_only_on_a_gpu_is_explained_by_its_own_log(target: Path) -> None:
    made = breakdown(facts("h200-target", Method.TARGET_ONLY, target))
    assert sizes(made) == {
        "TARGET_WEIGHTS": round(12.05 * GIB),
        "DRAFT_WEIGHTS": 0,
        "KV_CACHE_TARGET": 1_786_608 * 2 * 32 * 4 * 64 * 2,
        "KV_CACHE_DRAFT": 0,
        "ACTIVATIONS": round(3.1 * GIB),
        "GRAPHS": round(0.21 * GIB),
        "RESERVE": round(139.8 * GIB) - round(139.29 * GIB) + round(0.22 * GIB),
        "REMAINDER": None,
        "HEADROOM": None,
    }
    assert (made.kv_cache_tokens, made.max_concurrency) == (1_786_608, 872.37)
    assert made.capacity_bytes == round(139.8 * GIB)
    for check in made.checks:  # the log's figures and the files' and configuration's, each within what is printed
        assert abs(check.size_bytes - check.other_bytes) < 0.02 * GIB, check
    assert [check.quantity for check in made.checks] == [
        "weights",
        "KV cache",
        "checkpoint of the target",
        "what the engine may use",
    ]


def test_the_cache_of_a_draft_model_is_its_layers_share_of_the_blocks(target: Path, tmp_path: Path) -> None:
    made = breakdown(facts("h200-draft-model", Method.DRAFT_MODEL, target, llama(tmp_path / "draft", DRAFT)))
    found = sizes(made)
    assert found["KV_CACHE_TARGET"] == 1_669_792 * 32_768
    assert found["KV_CACHE_DRAFT"] == 1_669_792 * 2_048
    assert (found["KV_CACHE_TARGET"] + found["KV_CACHE_DRAFT"]) / GIB == pytest.approx(54.14, abs=0.005)
    assert (found["TARGET_WEIGHTS"], found["DRAFT_WEIGHTS"], found["WEIGHTS"]) == (None, None, round(12.06 * GIB))
    assert all(abs(check.size_bytes - check.other_bytes) < 0.02 * GIB for check in made.checks)


def test_the_draft_weighs_what_target_only_lacks(target: Path, tmp_path: Path) -> None:
    both = breakdown(facts("h200-draft-model", Method.DRAFT_MODEL, target, llama(tmp_path / "draft", DRAFT)))
    made = split_weights(both, breakdown(facts("h200-target", Method.TARGET_ONLY, target)))
    found = sizes(made)
    assert found["TARGET_WEIGHTS"] == round(12.05 * GIB)
    assert found["DRAFT_WEIGHTS"] == round(12.06 * GIB) - round(12.05 * GIB)
    assert "WEIGHTS" not in found
    assert "5,310,976 bytes" in source_of(both, MemoryPart.DRAFT_WEIGHTS)


def test_an_eagle_head_without_embeddings_uses_the_targets(target: Path, tmp_path: Path) -> None:
    head = llama(tmp_path / "eagle", EAGLE, extra={"fc.weight": (512, 1024)})
    made = breakdown(facts("h200-eagle", Method.EAGLE, target, head))
    found = sizes(made)
    assert found["KV_CACHE_TARGET"] == 1_732_256 * 32_768
    assert found["KV_CACHE_DRAFT"] == 1_732_256 * 1_024
    source = source_of(made, MemoryPart.DRAFT_WEIGHTS)
    assert "6,358,016 bytes" in source
    assert "no embeddings of its own: it uses the target's" in source


def test_ngram_on_a_gpu_takes_nothing_of_its_own(target: Path) -> None:
    found = sizes(breakdown(facts("h200-ngram", Method.NGRAM, target)))
    assert (found["DRAFT_WEIGHTS"], found["KV_CACHE_DRAFT"]) == (0, 0)
    assert found["KV_CACHE_TARGET"] == 1_772_144 * 32_768
    assert found["GRAPHS"] == round(0.45 * GIB)


def test_a_cpu_server_says_its_cache_and_the_files_say_the_weights(tmp_path: Path) -> None:
    """1,536 bytes a token, as the sample's target has it; its blocks are those of the server's own document."""
    shape = {"hidden_size": 192, "intermediate_size": 512, "num_hidden_layers": 2, "num_key_value_heads": 3}
    model = llama(tmp_path / "target", shape)
    config = CPU_CONFIG | {"cache_config.num_gpu_blocks": "5461"}
    made = breakdown(facts("cpu-ngram", Method.NGRAM, model, config=config))
    found = sizes(made)
    assert found["KV_CACHE_TARGET"] == 5461 * 128 * 1536 == 1_073_676_288
    assert found["KV_CACHE_DRAFT"] == found["DRAFT_WEIGHTS"] == found["GRAPHS"] == 0
    assert found["ACTIVATIONS"] is found["RESERVE"] is None
    assert found["TARGET_WEIGHTS"] == (model / "model.safetensors").stat().st_size - header_bytes(model)
    source = source_of(made, MemoryPart.TARGET_WEIGHTS)
    assert source.startswith("computed, not measured: 20 tensors of target's safetensors headers, bfloat16, tied emb")


def header_bytes(model: Path) -> int:
    file = model / "model.safetensors"
    return 8 + int.from_bytes(file.read_bytes()[:8], "little")


def test_the_manifests_type_decides_what_the_engine_holds(tmp_path: Path) -> None:
    model = llama(tmp_path / "target", DRAFT)
    found = {
        dtype: sizes(
            breakdown(facts("cpu-ngram", Method.NGRAM, model, config=CPU_CONFIG | {"model_config.dtype": dtype}))
        )
        for dtype in ("torch.bfloat16", "torch.float32")
    }
    assert found["torch.bfloat16"]["TARGET_WEIGHTS"] == 5_310_976
    assert found["torch.float32"]["TARGET_WEIGHTS"] == 2 * 5_310_976


def test_a_shared_output_head_is_not_held_twice(tmp_path: Path) -> None:
    """The log of a CPU engine says that its EAGLE-3 head has the target's embeddings and output head."""
    head = llama(tmp_path / "head", EAGLE, extra={"fc.weight": (512, 1024), "lm_head.weight": (VOCABULARY, 512)})
    made = breakdown(facts("cpu-eagle3", Method.EAGLE3, llama(tmp_path / "target", DRAFT), head, CPU_CONFIG))
    assert sizes(made)["DRAFT_WEIGHTS"] == 6_358_016
    source = source_of(made, MemoryPart.DRAFT_WEIGHTS)
    assert "lm_head.weight is not held a second time" in source
    assert "The draft takes from the target: embedding, lm_head." in made.caveats


def test_a_head_in_the_target_is_told_from_the_target(tmp_path: Path) -> None:
    inner = {f"model.mtp_layers.0.{name}": (256, 256) for name in ("input_proj.weight", "self_attn.q_proj.weight")}
    model = llama(tmp_path / "plain", DRAFT)
    tensors = json.loads((model / "model.safetensors").read_bytes()[8 : header_bytes(model)])
    both = write(
        tmp_path / "mtp",
        {name: tuple(described["shape"]) for name, described in tensors.items()} | inner,
        {**DRAFT, "head_dim": 64, "num_attention_heads": 4, "tie_word_embeddings": True, "num_nextn_predict_layers": 1},
    )
    config = CPU_CONFIG | {"cache_config.num_gpu_blocks": "10"}
    made = facts("cpu-ngram", Method.MTP, both, config=config)
    assert made.target.weights_bytes == 5_310_976
    assert made.draft is not None
    assert made.draft.weights_bytes == 2 * 256 * 256 * 2
    assert (made.target.kv_bytes_per_token, made.draft.kv_bytes_per_token) == (2_048, 1_024)


def test_layers_that_cache_otherwise_are_not_guessed_at(tmp_path: Path) -> None:
    sliding = llama(tmp_path / "target", DRAFT, sliding_window=1024)
    made = breakdown(facts("h200-target", Method.TARGET_ONLY, sliding))
    row = row_of(made, MemoryPart.KV_CACHE_TARGET)
    assert row is not None
    assert row.size_bytes == round(54.52 * GIB)  # the engine's own word, without a share for a draft there is none
    assert row.source == 'engine log, "Available KV cache memory"'
    assert "sliding_window" in facts("h200-target", Method.TARGET_ONLY, sliding).target.kv_words


def test_a_model_that_cannot_be_read_leaves_its_rows_open(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    made = breakdown(facts("cpu-draft-model", Method.DRAFT_MODEL, tmp_path / "gone", tmp_path / "gone", CPU_CONFIG))
    found = sizes(made)
    assert found["TARGET_WEIGHTS"] is found["DRAFT_WEIGHTS"] is found["KV_CACHE_TARGET"] is None
    assert found["KV_CACHE"] == GIB
    assert "config.json is missing" in source_of(made, MemoryPart.KV_CACHE_TARGET)


def test_a_server_that_never_started_still_has_its_rows(tmp_path: Path) -> None:
    """Nothing in the log, nothing resolved: what the files say as they are, and everything else open."""
    made = breakdown(memory_facts("", {}, method=Method.NGRAM, target=llama(tmp_path / "t", DRAFT), draft=None))
    assert sizes(made)["TARGET_WEIGHTS"] == 5_310_976
    assert "as on disk" in source_of(made, MemoryPart.TARGET_WEIGHTS)
    assert made.capacity_bytes is made.total_bytes is made.kv_cache_tokens is None


def test_the_capacity_says_whose_it_is(target: Path) -> None:
    log = (LOGS / "h200-target.log").read_text()
    told = memory_facts(log, {}, method=Method.TARGET_ONLY, target=target, draft=None, capacity_bytes=143_771 * 1024**2)
    assert told.capacity_source == "NVML"
    check = next(check for check in breakdown(told).checks if check.quantity == "capacity")
    assert (check.size_bytes, check.other_bytes) == (143_771 * 1024**2, round(139.8 * GIB))
    host = memory_facts(log, CPU_CONFIG, method=Method.NGRAM, target=target, draft=None, capacity_bytes=GIB)
    assert host.capacity_source == "the host's memory"
