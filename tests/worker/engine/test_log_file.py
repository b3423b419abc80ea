from pathlib import Path

import pytest

from worker.engine import log_file
from worker.engine.log_file import read_log

END = 16


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log of which only so many bytes at each end are read."""
    monkeypatch.setattr(log_file, "END_BYTES", END)
    return tmp_path / "engine.log"


@pytest.mark.parametrize("size", [0, 1, END - 1, END, END + 1, 2 * END - 1, 2 * END])
def test_a_log_within_two_ends_is_read_whole(size: int, log: Path) -> None:
    text = "".join(chr(ord("a") + i % 26) for i in range(size))
    log.write_text(text)
    assert read_log(log) == text


@pytest.mark.parametrize("more", [1, 2, 1000])
def test_a_flood_is_its_two_ends_and_how_much_was_left_out(more: int, log: Path) -> None:
    log.write_text("b" * END + "x" * more + "e" * END)
    assert read_log(log) == "b" * END + f"\n[{more} bytes of this log were left out]\n" + "e" * END


def test_characters_that_the_cut_divides_do_not_stop_the_reading(log: Path) -> None:
    log.write_text("ü" * (4 * END), encoding="utf-8")
    told = read_log(log)
    assert told.count("ü") == END
    log.write_bytes(b"\xff\xfe" * 3)
    assert read_log(log) == "\ufffd" * 6


def test_a_log_that_grows_while_it_is_read_is_read_without_a_gap(log: Path) -> None:
    log.write_text("a" * END)
    with log.open("a") as writer:
        writer.write("b" * 3)
        writer.flush()
        assert read_log(log) == "a" * END + "bbb"


def test_an_end_holds_a_whole_start_up() -> None:
    assert log_file.END_BYTES >= 512 * 1024
