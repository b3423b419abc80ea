"""Weights of a small model as numpy arrays, and back to a file; bfloat16, which numpy lacks, is widened to float32."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

Floats = npt.NDArray[np.float32]
Weights = dict[str, Floats]

WEIGHTS, CONFIG = "model.safetensors", "config.json"
_HEADER_BYTES = 8


def read_config(directory: Path) -> dict[str, Any]:
    """The model's configuration."""
    return json.loads((directory / CONFIG).read_text())


def read_weights(directory: Path) -> Weights:
    """Every tensor of the model, as float32. Raises ``ValueError`` for a dtype that such a model does not have."""
    content = (directory / WEIGHTS).read_bytes()
    start = _HEADER_BYTES + int.from_bytes(content[:_HEADER_BYTES], "little")
    header: dict[str, Any] = json.loads(content[_HEADER_BYTES:start])
    return {
        name: _widened(content[start + told["data_offsets"][0] : start + told["data_offsets"][1]], told)
        for name, told in header.items()
        if name != "__metadata__"
    }


def write_model(directory: Path, config: Mapping[str, Any], weights: Mapping[str, Floats]) -> None:
    """A model directory of these two files, made if need be; the same values give the same bytes."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / CONFIG).write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    ordered = {name: np.ascontiguousarray(weights[name], dtype=np.float32) for name in sorted(weights)}
    save_file(ordered, directory / WEIGHTS, metadata={"format": "pt"})


def _widened(content: bytes, told: Mapping[str, Any]) -> Floats:
    if told["dtype"] == "BF16":
        bits = np.frombuffer(content, dtype="<u2").astype(np.uint32) << 16
        values = bits.view(np.float32)
    elif told["dtype"] == "F32":
        values = np.frombuffer(content, dtype="<f4")
    else:
        raise ValueError(f"a tensor of dtype {told['dtype']} is not read here")
    return values.reshape(told["shape"])
