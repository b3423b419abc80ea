"""A stand-in for NVIDIA's library (``nvml_library``), and how to put it in its place, here and in other processes."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import nvml_library
from tests.fakes.nvml_library import GIB, IDLE, STATE, write_state
from worker import identity, nvml
from worker.telemetry import device

__all__ = ["GIB", "STATE", "FakeGpus", "install", "install_for_children"]


@dataclass(frozen=True, slots=True)
class FakeGpus:
    """The file, and what a test does to it."""

    path: Path

    def write(self, *gpus: dict[str, Any]) -> None:
        """A driver with these GPUs; what is not said of one is that of an idle H200."""
        every = [{"uuid": f"GPU-{number}", **IDLE, **gpu} for number, gpu in enumerate(gpus)]
        write_state(self.path, {"driver": "580.1", "cuda": 13000, "gpus": every})

    def change(self, **values: Any) -> None:
        """Of the first GPU, from now on."""
        state = json.loads(self.path.read_text())
        state["gpus"][0] |= values
        write_state(self.path, state)

    def left(self, name: str) -> int:
        """How many answers of a list the first GPU still has to give."""
        return len(json.loads(self.path.read_text())["gpus"][0][name])


def install(monkeypatch: pytest.MonkeyPatch, directory: Path) -> FakeGpus:
    """Put the library in its place for the code under test; no driver before the first ``write``."""
    path = directory / "nvml.json"
    monkeypatch.setenv(STATE, str(path))
    for user in (nvml, identity, device):
        monkeypatch.setattr(user, "pynvml", nvml_library)
    errors = (nvml_library.NVMLError, nvml_library.NVMLLibraryMismatchError)
    monkeypatch.setattr(nvml, "REFUSALS", errors)
    return FakeGpus(path)


def install_for_children(monkeypatch: pytest.MonkeyPatch, directory: Path) -> FakeGpus:
    """The same for processes that are started from now on."""
    shelf = directory / "instead"
    shelf.mkdir()
    (shelf / "pynvml.py").write_text("from tests.fakes.nvml_library import *\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(shelf), *filter(None, [os.environ.get("PYTHONPATH")]))))
    return install(monkeypatch, directory)
