"""The sampler's process imports little, and so it has the domain's names once more."""

import subprocess
import sys

from app.domain import series
from app.settings import PROJECT_ROOT
from worker.telemetry import names

HEAVY = ("pydantic", "numpy", "httpx", "psutil", "asyncio", "logging", "app.domain.series")


def constants(module: object) -> dict[str, str]:
    return {name: value for name, value in vars(module).items() if name.isupper() and isinstance(value, str)}


def test_the_names_are_the_domains_and_all_of_them_are_sampled() -> None:
    ours = constants(names)
    assert constants(series).items() <= ours.items()
    assert set(ours.values()) == {*names.OF_DEVICE, *names.OF_HOST}


def test_a_samplers_process_imports_nothing_heavy() -> None:
    program = f"import worker.telemetry.process, sys; print([m for m in {HEAVY} if m in sys.modules])"
    finished = subprocess.run(
        [sys.executable, "-c", program], cwd=PROJECT_ROOT, capture_output=True, text=True, check=True
    )
    assert finished.stdout.strip() == "[]"
