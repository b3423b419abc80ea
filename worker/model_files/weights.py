"""Which files hold a model's weights, and what the safetensors headers say of them. No weight is read.

The engine takes ``*.safetensors`` where there is one, else pickles; an index tells which of several files count.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeGuard

from worker.model_files.tree import Entry, ModelRefused, Tree, is_clean, is_count, is_object, parse_object, unreadable

HEADER_BYTES_MAX = 64 * 1024**2
INDEX_BYTES_MAX = 64 * 1024**2
LENGTH_BYTES = 8
DIMENSIONS_MAX = 16
EAGLE_TENSOR = "fc.weight"
"""What joins the target's hidden state to a token: only an EAGLE head has it, whatever its configuration says."""

WeightsFormat = Literal["safetensors", "pickle", "gguf", "none"]

BITS = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I8", "U8", "BOOL"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}
"""Bits of one element; another type of number is counted but its extent is not checked."""
TORCH_NAMES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}
_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
"""What an engine converts to the type that it computes in."""
PACKED = frozenset({"I64", "I32", "U32", "U8"})
"""What quantised formats pack several weights into, so that elements are not parameters."""

_SHARD = re.compile(r"(?P<stem>.+)-\d{5}-of-(?P<count>\d{5})(?P<suffix>\.safetensors|\.bin)")
_NO_MODEL = re.compile(r"(?:consolidated|adapter_model).*\.safetensors")
_NO_WEIGHTS = re.compile(r"(?:training_args|optimizer|scheduler|rng_state|scaler|random_states|adapter_model).*")


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor as a header describes it; ``begin`` and ``stop`` count bytes from the end of the header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    stop: int

    @property
    def elements(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Weights:
    """The files an engine would load, their bytes together, and elements by safetensors' name of their type."""

    format: WeightsFormat
    size: int = 0
    elements: Mapping[str, int] = field(default_factory=dict[str, int])
    eagle_shape: tuple[int, ...] | None = None
    """Of ``EAGLE_TENSOR``, where there is one."""

    @property
    def dtype(self) -> str | None:
        """The most common type, in torch's words."""
        most = self._most_common()
        return None if most is None else TORCH_NAMES.get(most, most.lower())

    @property
    def is_packed(self) -> bool:
        """Whether most elements are of a type into which quantised weights are packed."""
        return self._most_common() in PACKED

    def _most_common(self) -> str | None:
        return max(sorted(self.elements), key=lambda dtype: self.elements[dtype], default=None)


def weights_of(tree: Tree) -> Weights:
    """Raises ``ModelRefused`` where a file is missing, truncated or not what its name says."""
    if entries := _safetensors(tree):
        return _headed(tree, entries)
    top = _top(tree)
    pickles = [name for name in top if name.endswith((".bin", ".pt", ".pth")) and not _NO_WEIGHTS.match(name)]
    if files := _complete(tree, _indexed(tree, "pytorch_model.bin.index.json") or pickles):
        return Weights("pickle", _size(tree, files))
    gguf = {name for name in top if name.endswith(".gguf")}
    return Weights("gguf" if gguf else "none", _size(tree, gguf))


def tensors_of(tree: Tree) -> tuple[Tensor, ...]:
    """Every tensor that an engine would load; none where the weights are not safetensors. Raises ``ModelRefused``."""
    return tuple(tensor for entry in _safetensors(tree) for tensor in _tensors(tree, entry))


def bytes_by_dtype(tensors: Iterable[Tensor]) -> dict[str, int]:
    """Bytes on disk by safetensors' name of the type."""
    found: Counter[str] = Counter()
    for tensor in tensors:
        found[tensor.dtype] += tensor.stop - tensor.begin
    return dict(found)


def held_bytes(tensors: Iterable[Tensor], dtype: str | None) -> int:
    """Bytes in memory where the engine computes in torch's ``dtype``; ``None``: every tensor stays as it is on disk."""
    wanted = next((BITS[short] for short, long in TORCH_NAMES.items() if long == _torch_name(dtype)), None)
    return sum(
        tensor.elements * wanted // 8 if wanted and tensor.dtype in _FLOATS else tensor.stop - tensor.begin
        for tensor in tensors
    )


def _torch_name(dtype: str | None) -> str | None:
    name = dtype.removeprefix("torch.") if dtype else None
    return {"half": "float16", "float": "float32"}.get(name or "", name)


def _top(tree: Tree) -> list[str]:
    return [entry.name for entry in tree.entries if "/" not in entry.name]


def _safetensors(tree: Tree) -> list[Entry]:
    named = [name for name in _top(tree) if name.endswith(".safetensors") and not _NO_MODEL.fullmatch(name)]
    files = _complete(tree, _indexed(tree, "model.safetensors.index.json") or named)
    return [entry for entry in tree.entries if entry.name in files]


def _headed(tree: Tree, entries: list[Entry]) -> Weights:
    elements: Counter[str] = Counter()
    eagle_shape = None
    for entry in entries:
        for tensor in _tensors(tree, entry):
            elements[tensor.dtype] += tensor.elements
            if tensor.name.removeprefix("model.") == EAGLE_TENSOR:
                eagle_shape = tensor.shape
    return Weights("safetensors", sum(entry.size for entry in entries), elements, eagle_shape)


def _indexed(tree: Tree, index: str) -> list[str]:
    """The files that the index names, each checked to be here."""
    if index not in tree:
        return []
    weight_map = tree.json(index, limit=INDEX_BYTES_MAX).get("weight_map")
    if not is_object(weight_map) or not all(_is_name(name) for name in weight_map.values()):
        raise ModelRefused.of(index, "has no weight_map of file names", "restore the file")
    named = sorted(set(weight_map.values()))
    for name in named:
        if name not in tree:
            raise ModelRefused.of(name[:200], f"is missing, though {index} names it", "complete the download")
    return named


def _complete(tree: Tree, files: list[str]) -> frozenset[str]:
    """The files; one that calls itself part of a set needs the rest of the set."""
    here = {entry.name for entry in tree.entries}
    for stem, count, suffix in sorted({shard.groups() for name in files if (shard := _SHARD.fullmatch(name))}):
        for number in range(1, int(count) + 1):
            part = f"{stem}-{number:05d}-of-{count}{suffix}"
            if part not in here:
                raise ModelRefused.of(
                    part, "is missing, though other parts of its set are here", "complete the download"
                )
    return frozenset(files)


def _size(tree: Tree, files: Iterable[str]) -> int:
    wanted = set(files)
    return sum(entry.size for entry in tree.entries if entry.name in wanted)


def _tensors(tree: Tree, entry: Entry) -> Iterator[Tensor]:
    """Each tensor of one file; their extents must end where the file ends."""
    content = _header(tree, entry)
    end = 0
    for name, described in parse_object(entry.name, content).items():
        if name != "__metadata__":
            tensor = _tensor(entry.name, name, described)
            end = max(end, tensor.stop)
            yield tensor
    if entry.size != LENGTH_BYTES + len(content.encode()) + end:
        raise _malformed(entry.name, "is truncated, or longer than its header says")


def _header(tree: Tree, entry: Entry) -> str:
    """The JSON at the head of a safetensors file; its length is not believed beyond the file's own."""
    try:
        with (tree.root / entry.name).open("rb") as file:
            length = int.from_bytes(file.read(LENGTH_BYTES), "little")
            if not 0 < length <= min(HEADER_BYTES_MAX, entry.size - LENGTH_BYTES):
                raise _malformed(entry.name, f"claims a header of {length:,} bytes in a file of {entry.size:,}")
            return file.read(length).decode()
    except UnicodeDecodeError as error:
        raise _malformed(entry.name, "has a header that is not UTF-8") from error
    except OSError as error:
        raise unreadable(entry.name, error) from error


def _tensor(file: str, name: str, described: object) -> Tensor:
    stated = described if is_object(described) else {}
    dtype, shape, offsets = stated.get("dtype"), stated.get("shape"), stated.get("data_offsets")
    if not isinstance(dtype, str) or not _are_counts(shape, DIMENSIONS_MAX) or not _are_counts(offsets, 2):
        raise _malformed(file, f"describes the tensor {name[:80]!a} in no known way")
    tensor = Tensor(name, dtype, tuple(shape), min(offsets, default=0), max(offsets, default=0))
    if [tensor.begin, tensor.stop] != offsets or not is_count(tensor.elements):
        raise _malformed(file, f"describes the tensor {name[:80]!a} in no known way")
    if (tensor.stop - tensor.begin) * 8 != tensor.elements * BITS.get(dtype, 0) and dtype in BITS:
        raise _malformed(file, f"gives the tensor {name[:80]!a} another size than its shape")
    return tensor


def _is_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and is_clean(value)


def _are_counts(value: object, most: int) -> TypeGuard[list[int]]:
    return isinstance(value, list) and len(value) <= most and all(is_count(number) for number in value)


def _malformed(file: str, message: str) -> ModelRefused:
    return ModelRefused.of(file, message, "restore the file, or complete the download")
