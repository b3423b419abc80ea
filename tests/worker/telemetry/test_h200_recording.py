"""What a real H200 told: idle, twelve seconds of matrix products, a stranger for four of them, idle again.

Recorded by ``python -m worker.telemetry --gpus all --seconds 27 --engine-pid …`` (docs/telemetry.md).
"""

from pathlib import Path

import pytest

from app.domain.control import ControlOutcome
from app.domain.series import ENERGY, ENGINE_DEVICE_MEMORY, FOREIGN_PROCESSES, POWER, SM_CLOCK, THROTTLE_REASONS, Series
from app.domain.telemetry_controls import foreign_processes, power_cap, throttling
from app.domain.vocabulary import NS_PER_S
from worker.telemetry.recording import Recording, read_recording

FILE = Path(__file__).resolve().parents[2] / "data" / "telemetry" / "h200.txt"
GIB = 1024**3


@pytest.fixture(scope="module")
def recording() -> Recording:
    return read_recording(FILE)


def series(recording: Recording, name: str) -> Series:
    (key,) = (key for key in recording.columns if key[1] == name)
    column, started_ns = recording.columns[key], recording.head.started_monotonic_ns
    at_ns = tuple(at - started_ns for at in column.at_ns)
    return Series(name=name, labels={"device": str(key[0])}, at_ns=at_ns, values=tuple(column.values))


def between(found: Series, first_s: float, last_s: float) -> list[float]:
    inside = zip(found.at_ns, found.values, strict=True)
    return [value for at, value in inside if first_s <= at / NS_PER_S <= last_s]


def test_power_and_clocks_follow_the_load(recording: Recording) -> None:
    power, clock = series(recording, POWER), series(recording, SM_CLOCK)
    assert max(between(power, 0, 7)) < 80
    assert min(between(power, 11, 20)) > 600
    assert set(between(clock, 0, 7)) == {345}
    assert 1300 < min(between(clock, 11, 20)) < 1980  # held at the power limit, below its best


def test_energy_is_the_integral_of_power(recording: Recording) -> None:
    """The driver's two counters are independent; over ten steady seconds they agree to a few per cent."""
    energy, power = series(recording, ENERGY), series(recording, POWER)
    spent = between(energy, 10, 20)
    steady = between(power, 10, 20)
    seconds = (len(spent) - 1) * 0.5
    assert (spent[-1] - spent[0]) / seconds == pytest.approx(sum(steady) / len(steady), rel=0.05)


def test_the_engine_has_its_own_memory_and_the_stranger_is_counted(recording: Recording) -> None:
    own, strangers = series(recording, ENGINE_DEVICE_MEMORY), series(recording, FOREIGN_PROCESSES)
    assert 6 * GIB < max(own.values) < 8 * GIB  # six of data and the context's share
    assert max(strangers.values) == 1
    assert max(between(strangers, 0, 12)) == 0
    found = foreign_processes([strangers], {})
    assert (found.outcome, found.figure) == (ControlOutcome.FAIL, 1)


def test_a_power_cap_is_stated_and_no_throttling(recording: Recording) -> None:
    reasons = series(recording, THROTTLE_REASONS)
    assert throttling([reasons], {}).outcome is ControlOutcome.PASS
    assert 0.3 < (power_cap([reasons], {}).figure or 0) < 0.6
