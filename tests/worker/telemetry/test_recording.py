import os
from pathlib import Path

import pytest

from worker.telemetry.names import Reading
from worker.telemetry.recording import Absence, Group, Head, RecordingRefused, Writer, read_recording

HEAD = Head(100, 1_790_000_000, (Group("GPU-0", ("power", "clock")), Group(None, ("steal",))))


def written(path: Path, *lines: tuple[int, int, Reading], end_ns: int | None = None) -> Path:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    writer = Writer(descriptor, HEAD)
    for line in lines:
        writer.add(*line)
    if end_ns is not None:
        writer.end(end_ns)
    os.close(descriptor)
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    rows: list[tuple[int, int, Reading]] = [
        (0, 110, {"power": 70.125, "clock": 1980}),
        (1, 112, {"steal": 0.1 + 0.2}),
        (0, 120, {"power": 1e-7, "clock": 345}),
    ]
    recording = read_recording(written(tmp_path / "a.txt", *rows, end_ns=130))
    assert recording.head == HEAD
    assert recording.columns["GPU-0", "power"].at_ns == [110, 120]
    assert recording.columns["GPU-0", "power"].values == [70.125, 1e-7]
    assert recording.columns["GPU-0", "clock"].values == [1980, 345]
    assert recording.columns[None, "steal"].values == [0.1 + 0.2]
    assert (recording.ended_ns, recording.newest_ns, recording.absences) == (130, 120, [])


def test_a_quantity_is_missing_from_when_to_when_and_why(tmp_path: Path) -> None:
    rows: list[tuple[int, int, Reading]] = [
        (0, 110, {"power": 70.0, "clock": "Not Supported"}),
        (0, 120, {"power": "GPU is lost", "clock": "Not Supported"}),
        (0, 130, {"power": "GPU is lost", "clock": "Not Supported"}),
        (0, 140, {"power": 71.0, "clock": "Not Supported"}),
    ]
    recording = read_recording(written(tmp_path / "a.txt", *rows))
    assert recording.absences == [
        Absence("GPU-0", "clock", "Not Supported", 110),
        Absence("GPU-0", "power", "GPU is lost", 120, 140),
    ]
    assert recording.columns["GPU-0", "power"].at_ns == [110, 140]
    assert recording.columns["GPU-0", "clock"].at_ns == []


def test_a_quantity_that_was_left_out_of_a_reading_is_missing_too(tmp_path: Path) -> None:
    recording = read_recording(written(tmp_path / "a.txt", (0, 110, {"power": 70.0})))
    assert recording.absences == [Absence("GPU-0", "clock", "it was not read", 110)]


def test_a_file_that_was_cut_off_in_a_line_is_read_up_to_it(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", (1, 110, {"steal": 1.0}), (1, 120, {"steal": 2.5}), end_ns=130)
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.index(b"2.5") + 1])
    recording = read_recording(path)
    assert (recording.columns[None, "steal"].values, recording.ended_ns) == ([1.0], None)


@pytest.mark.parametrize(
    "line",
    [
        "0,110,70.0",
        "0,110,70.0,1,2",
        "2,110,70.0",
        "-1,110,70.0",
        "0,110,inf,1",
        "0,110,nan,1",
        "0,110,seventy,1",
        "0,99,1,1",
        "0,a,1,1",
        "word",
        "!{",
        "![]",
        '!{"group": 7, "name": "power", "at_ns": 1, "reason": null}',
        ".[1]",
        "",
    ],
)
def test_a_malformed_line_is_refused_by_file_and_number(tmp_path: Path, line: str) -> None:
    path = written(tmp_path / "a.txt", (0, 105, {"power": 70.0, "clock": 1}))
    with path.open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(RecordingRefused, match=r"^a\.txt, line 3: "):
        read_recording(path)


@pytest.mark.parametrize(
    "head",
    ["", "\n", "{}\n", "[]\n", "power,clock\n", '{"format": "verdraft-telemetry"}\n', "\udcff\n"],
)
def test_what_has_no_head_is_refused_by_name(tmp_path: Path, head: str) -> None:
    path = tmp_path / "stranger.csv"
    path.write_bytes(head.encode("utf-8", "surrogateescape"))
    with pytest.raises(RecordingRefused, match=r"stranger\.csv"):
        read_recording(path)


def test_a_later_version_and_a_file_that_is_not_there_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt")
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(RecordingRefused, match=r"a\.txt is verdraft-telemetry 2; this program reads .* 1"):
        read_recording(path)
    with pytest.raises(RecordingRefused, match=r"gone\.txt cannot be read"):
        read_recording(tmp_path / "gone.txt")
