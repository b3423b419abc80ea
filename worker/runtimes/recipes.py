"""What a runtime made by us consists of: one hash-locked requirements file each, and what that file cannot hold."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from app.domain.errors import DomainError

STAMP = "verdraft-runtime.json"
"""Written last into a finished runtime; without the right one a directory is built anew."""
GIB = 1024**3
TORCH = "torch==2.13.0+cpu"
_HERE = Path(__file__).resolve().parent


class InstallRefused(DomainError):
    """The runtime cannot be made on this host, or not now."""

    title = "The runtime cannot be installed"


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a runtime consists of.

    ``built`` locks what exists as sources only; it is compiled last, with what ``lock`` has installed. ``torch`` is
    apart where the main index lacks that build. ``shim`` is the name and version of a distribution the engine asks
    ``importlib.metadata`` for and its wheel does not carry.
    """

    lock: Path
    built: Path | None = None
    torch: str | None = None
    shim: tuple[str, str] | None = None
    free_gib_min: int = 5
    pythons: tuple[str, ...] = ("3.11", "3.12", "3.13")
    """Python versions that the lock was made for, the preferred one first."""

    def digest(self) -> str:
        """Changes whenever a runtime must be built anew."""
        stated = json.dumps([self.torch, self.shim, STAMP]).encode()
        locks = self.lock.read_bytes() + (self.built.read_bytes() if self.built else b"")
        return hashlib.sha256(locks + stated).hexdigest()


RECIPES = {
    "cpu": Recipe(_HERE / "cpu.lock", torch=TORCH, shim=("vllm", "0.32.0+cpu")),
    "cpu-suffix": Recipe(
        _HERE / "cpu-suffix.lock", _HERE / "cpu-suffix-built.lock", torch=TORCH, shim=("vllm", "0.32.0+cpu")
    ),
    "cpu-0.27": Recipe(_HERE / "cpu-0.27.lock", torch=TORCH, shim=("vllm", "0.27.0+cpu")),
    "cuda": Recipe(_HERE / "cuda.lock", free_gib_min=20),
}


def recipe(name: str) -> Recipe:
    """The recipe of that name. Raises ``InstallRefused``."""
    if name not in RECIPES:
        raise InstallRefused.of("name", f"there is no runtime recipe {name!r}", f"one of: {', '.join(sorted(RECIPES))}")
    return RECIPES[name]
