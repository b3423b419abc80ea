"""Small model directories, sound by default; tests break one thing at a time."""

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 4,
    "vocab_size": 6,
    "max_position_embeddings": 64,
    "rope_theta": 10000.0,
    "rope_scaling": None,
    "eos_token_id": 0,
}
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"
TOKENIZER_CONFIG: dict[str, Any] = {"eos_token": "<end>", "added_tokens_decoder": {}, "chat_template": TEMPLATE}
WORDS = ("<end>", "a", "b", "c")
CARD = """---
licence: MIT
training_data: [wiki, code]
target_revision: someone/target@abc
training_cost: 3 GPU hours
---
# A model
"""


def make_model(directory: Path, *, weights: Any = None, **files: Any) -> Path:
    """A model; ``files`` replaces one by its stem (``config={…}``, text, bytes, or ``None`` to leave it out).

    ``weights`` maps tensor names to shapes, in float32.
    """
    contents: dict[str, Any] = {
        "config.json": CONFIG,
        "generation_config.json": {"eos_token_id": [0, 3]},
        "tokenizer.json": tokenizer_json(),
        "tokenizer_config.json": TOKENIZER_CONFIG,
        "README.md": CARD,
    }
    for stem, content in files.items():
        name = next((name for name in contents if name.rpartition(".")[0].lower() == stem.lower()), stem)
        contents[name] = content
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        if content is not None:
            put(directory / name, content)
    save_weights(directory / "model.safetensors", weights or {"embed.weight": (6, 8), "norm.weight": (8,)})
    return directory


def put(path: Path, content: dict[str, Any] | list[Any] | str | bytes) -> Path:
    """Write text and bytes as they are, all else as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def save_weights(path: Path, tensors: Mapping[str, Sequence[int]], dtype: str = "float32") -> Path:
    """A safetensors file as the library writes it, all zeros."""
    save_file({name: np.zeros(tuple(shape), dtype) for name, shape in tensors.items()}, path)
    return path


def raw_safetensors(header: Mapping[str, Any] | bytes, body: bytes = b"", *, length: int | None = None) -> bytes:
    """Bytes in the form of a safetensors file; ``length`` is what it claims of its header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + body


def tokenizer_json(words: Sequence[str] = WORDS, added: Sequence[str] = ("<pad>",)) -> str:
    """A tokenizer of whole words, ids in the order given, then the added tokens."""
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(words)}, unk_token=words[0]))
    tokenizer.add_tokens([AddedToken(token, special=True) for token in added])
    return tokenizer.to_str()
