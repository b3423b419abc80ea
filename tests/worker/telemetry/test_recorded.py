"""A recording stands in for GPUs, and nobody can take it for them."""

from pathlib import Path

import pytest

from worker.telemetry.names import ENERGY, ENGINE_DEVICE_MEMORY, FOREIGN_PROCESSES, POWER, SM_CLOCK, THROTTLE_REASONS
from worker.telemetry.recorded import NOT_RECORDED, RecordedReader
from worker.telemetry.recording import RecordingRefused, read_recording

RECORDING = Path(__file__).parents[2] / "data" / "telemetry" / "synthetic.txt"
S = 1_000_000_000


class Clock:
    """Says what it was told to say."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


@pytest.fixture
def clock() -> Clock:
    return Clock()


def no_engine() -> frozenset[int]:
    return frozenset()


def test_each_question_is_answered_with_what_was_true_that_long_ago(clock: Clock) -> None:
    reader = RecordedReader(RECORDING, clock)
    (uuid,) = reader.uuids
    powers: list[object] = []
    for tenths in range(0, 50, 10):
        clock.now_ns = tenths * S // 10
        powers.append(reader.fast(uuid)[POWER])
    assert powers == [75, 175, 275, 375, 375]
    assert reader.fast(uuid)[SM_CLOCK] == 1980
    clock.now_ns = 4_600_000_000
    assert reader.slow(uuid)[THROTTLE_REASONS] == 4
    assert reader.processes(uuid, no_engine) == {ENGINE_DEVICE_MEMORY: 38 * 1024**3, FOREIGN_PROCESSES: 0}


def test_it_begins_anew_and_energy_goes_on(clock: Clock) -> None:
    reader = RecordedReader(RECORDING, clock)
    (uuid,) = reader.uuids
    column = read_recording(RECORDING).columns[uuid, ENERGY]
    energies: list[float] = []
    for second in range(21):
        clock.now_ns = second * S + S * 6 // 10
        told = reader.slow(uuid)[ENERGY]
        assert isinstance(told, float)
        energies.append(told)
    assert energies == sorted(energies)
    assert energies[-1] - column.values[0] > 3.9 * (column.values[-1] - column.values[0])
    assert reader.fast(uuid)[POWER] == 125


def test_what_was_missing_then_is_missing_now(clock: Clock, tmp_path: Path) -> None:
    lines = RECORDING.read_text().splitlines()
    lost = '!{"group": 0, "name": "device:power_w", "at_ns": 1001500000000, "reason": "GPU is lost"}'
    cut = [line for line in lines if not line.startswith("1,")]
    path = tmp_path / "cut.txt"
    path.write_text("\n".join([*cut, lost, ""]))
    reader = RecordedReader(path, clock)
    (uuid,) = reader.uuids
    assert reader.fast(uuid)[POWER] == 75
    clock.now_ns = 2 * S
    assert reader.fast(uuid)[POWER] == "GPU is lost"
    assert reader.slow(uuid)[ENERGY] == NOT_RECORDED


def test_what_is_no_recording_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("power,clock\n1,2\n")
    with pytest.raises(RecordingRefused, match=r"other\.csv"):
        RecordedReader(tmp_path / "other.csv")
