"""Make a small Llama cost what a large one costs without changing what it answers.

Further MLP units get zero down-projections, further layers zero output and down-projections, so that they add exactly
nothing; their other weights are noise. A draft or a head of the small model keeps its acceptance, and a step costs what
all those weights cost. Say so wherever such a result is shown: the cost is real, but the size buys no knowledge.
"""

import argparse
import json
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Bits = npt.NDArray[np.uint16]
"""bfloat16, which numpy lacks: the upper halves of float32."""
Tensors = dict[str, Bits]

WEIGHTS: Final = "model.safetensors"
CONFIG: Final = "config.json"
CARD: Final = "README.md"
SEED: Final = 12
SCALE: Final = 0.02
NOISE: Final = 1 << 22
"""So many values are drawn, and repeated: what is multiplied by zero need not differ. All hosts get the same bytes."""
WRITERS: Final = 8
_HEADER_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Shape:
    """How many layers the copy has, and how many units each of their MLPs."""

    layers: int
    width: int


def widen(source: Path, target: Path, shape: Shape) -> int:
    """Write the widened copy of ``source`` into the new directory ``target``; returns its bytes of weights."""
    config: dict[str, Any] = json.loads((source / CONFIG).read_text())
    weights = _read(source / WEIGHTS)
    _require_room(config, shape)
    target.mkdir(parents=True)
    noise = _noise()
    files = {"model-base.safetensors": {name: w for name, w in weights.items() if ".layers." not in name}}

    def write_layer(index: int) -> tuple[str, list[str], int]:
        name = f"model-{index:03d}.safetensors"
        layer = _layer(weights, index, int(config["num_hidden_layers"]), shape.width, noise)
        return name, list(layer), _write(target / name, layer)

    with ThreadPoolExecutor(WRITERS) as writers:
        written = [*writers.map(write_layer, range(shape.layers))]
    written += [(name, list(tensors), _write(target / name, tensors)) for name, tensors in files.items()]
    size = sum(count for _, _, count in written)
    index = {"metadata": {"total_size": size}, "weight_map": {t: file for file, names, _ in written for t in names}}
    (target / f"{WEIGHTS}.index.json").write_text(json.dumps(index, indent=1, sort_keys=True))
    config |= {"num_hidden_layers": shape.layers, "intermediate_size": shape.width}
    (target / CONFIG).write_text(json.dumps(config, indent=1))
    _copy_rest(source, target, shape)
    return size


def _require_room(config: Mapping[str, Any], shape: Shape) -> None:
    layers, width = int(config["num_hidden_layers"]), int(config["intermediate_size"])
    if shape.layers < layers or shape.width < width:
        raise SystemExit(f"the source has {layers} layers of {width} units; a copy cannot have fewer")


def _noise() -> Bits:
    drawn = np.random.default_rng(SEED).standard_normal(NOISE, dtype=np.float32) * np.float32(SCALE)
    return (drawn.view(np.uint32) >> 16).astype(np.uint16)


def _filled(noise: Bits, rows: int, columns: int) -> Bits:
    return np.resize(noise, (rows, columns))


def _layer(weights: Tensors, index: int, own: int, width: int, noise: Bits) -> Tensors:
    """A layer of the source with a wider MLP, or one more that passes its input on."""
    is_own = index < own
    given = f"model.layers.{index if is_own else 0}."
    source = {name.removeprefix(given): w for name, w in weights.items() if name.startswith(given)}
    made: Tensors = {}
    for name, weight in source.items():
        if name.startswith("mlp."):
            made[name] = _wider(name, weight if is_own else weight[:0, :0], weight.shape, width, noise)
        elif name.startswith("self_attn.") and not is_own:
            is_last = name == "self_attn.o_proj.weight"
            made[name] = np.zeros_like(weight) if is_last else _filled(noise, *weight.shape)
        else:
            made[name] = weight
    return {f"model.layers.{index}.{name}": weight for name, weight in made.items()}


def _wider(name: str, own: Bits, shape: tuple[int, ...], width: int, noise: Bits) -> Bits:
    if name == "mlp.down_proj.weight":
        wide = np.zeros((shape[0], width), dtype=np.uint16)
    else:
        wide = _filled(noise, width, shape[1])
    wide[: own.shape[0], : own.shape[1]] = own
    return wide


def _read(path: Path) -> Tensors:
    content = path.read_bytes()
    start = _HEADER_BYTES + int.from_bytes(content[:_HEADER_BYTES], "little")
    header: dict[str, Any] = json.loads(content[_HEADER_BYTES:start])
    return {name: _bits(content, start, told) for name, told in header.items() if name != "__metadata__"}


def _bits(content: bytes, start: int, told: Mapping[str, Any]) -> Bits:
    if told["dtype"] != "BF16":
        raise SystemExit(f"a tensor of dtype {told['dtype']}; only bfloat16 is widened here")
    first, last = told["data_offsets"]
    return np.frombuffer(content[start + first : start + last], dtype="<u2").reshape(told["shape"])


def _write(path: Path, tensors: Tensors) -> int:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, weight in tensors.items():
        begin, end = end, end + weight.nbytes
        header[name] = {"dtype": "BF16", "shape": list(weight.shape), "data_offsets": [begin, end]}
    stated = json.dumps(header, separators=(",", ":")).encode()
    stated += b" " * (-len(stated) % _HEADER_BYTES)
    with path.open("wb") as file:
        file.write(len(stated).to_bytes(_HEADER_BYTES, "little") + stated)
        for weight in tensors.values():
            file.write(np.ascontiguousarray(weight, dtype="<u2").data)
    return end


def _copy_rest(source: Path, target: Path, shape: Shape) -> None:
    for path in _others(source):
        shutil.copy(path, target)
    (target / CARD).write_text(
        f"# {target.name}\n{source.name}, widened to {shape.layers} layers with MLPs of {shape.width} units by "
        f"benchmarks/gpu/widening.py: the same function at the cost of a larger model. Its size buys it no knowledge.\n"
    )


def _others(source: Path) -> Iterator[Path]:
    return (p for p in sorted(source.iterdir()) if p.is_file() and p.name not in {CONFIG, WEIGHTS, CARD})


def main() -> None:
    """``python -m benchmarks.gpu.widening models/small models/small-wide --layers 32 --width 131072``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--layers", type=int, required=True)
    parser.add_argument("--width", type=int, required=True)
    asked = parser.parse_args()
    size = widen(asked.source, asked.target, Shape(asked.layers, asked.width))
    print(f"{asked.target}: {size / 2e9:.3f} B parameters, {size / 1e9:.2f} GB")  # noqa: T201  (the command's answer)


if __name__ == "__main__":
    main()
