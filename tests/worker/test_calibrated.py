"""The calibration of a host is kept whole or not at all, and is void where the host has changed since."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from app.domain.capability import HostCapability
from app.domain.client_range import ClientRange
from app.settings import Settings
from tests.factories_client import make_client_range
from worker.calibrated import FILE_NAME, NEVER, Calibrated, calibrated, client_host, keep
from worker.cli import app
from worker.identity import capabilities


@pytest.fixture
def here() -> ClientRange:
    """A range that was measured on this host, as it is now."""
    return make_client_range(host=client_host())


def test_what_is_kept_is_found_and_nothing_else_stays(tmp_path: Path, here: ClientRange) -> None:
    home = tmp_path / "home"
    assert calibrated(home) == Calibrated()
    assert calibrated(home).words == NEVER
    assert keep(home, here) == home / FILE_NAME
    assert calibrated(home) == Calibrated(here)
    assert calibrated(home).words == (
        "calibrated 2026-11-30 04:05 UTC, up to 100 requests/s, 256 in flight, 6,400 chunks/s"
    )
    assert [path.name for path in home.iterdir()] == [FILE_NAME]


def test_a_failed_replacement_leaves_the_old_file_and_no_other(
    tmp_path: Path, here: ClientRange, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(_path: Path, _target: Path) -> Path:
        raise OSError("no space")

    keep(tmp_path, here)
    monkeypatch.setattr(Path, "replace", full_disk)
    with pytest.raises(OSError, match="no space"):
        keep(tmp_path, here.model_copy(update={"quick": True}))
    assert calibrated(tmp_path).range == here
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_a_reader_never_sees_a_part(tmp_path: Path, here: ClientRange, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the moment of the replacement the new file is whole and the old one is still in its place."""
    seen: list[tuple[Any, Any]] = []
    replace = Path.replace

    def looking(path: Path, target: Path) -> Path:
        seen.append((json.loads(path.read_bytes())["quick"], json.loads(target.read_bytes())["quick"]))
        return replace(path, target)

    keep(tmp_path, here)
    monkeypatch.setattr(Path, "replace", looking)
    keep(tmp_path, here.model_copy(update={"quick": True}))
    assert seen == [(True, False)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kernel": "0.1"}, "the kernel changed from 0.1 to "),
        ({"cpu_model": "abacus"}, "the processor changed from abacus to "),
        ({"client_cores": (4095,)}, "the client's cores changed from 4095 to "),
        ({"client_digest": "0" * 64}, "the client's code changed"),
    ],
)
def test_a_change_of_the_host_makes_it_void(
    tmp_path: Path, here: ClientRange, change: dict[str, Any], words: str
) -> None:
    host = here.host.model_copy(update=change)
    keep(tmp_path, ClientRange.model_validate(here.model_dump() | {"host": host.model_dump()}))
    found = calibrated(tmp_path)
    assert found.void.startswith(f"calibrated 2026-11-30 04:05 UTC, but since then {words}")
    assert found.words.endswith("run `verdraft calibrate` again")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": "verdraft/client-range/v9"}'])
def test_a_file_that_cannot_be_read_is_void_and_said_to_be(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE_NAME).write_text(content)
    assert calibrated(tmp_path) == Calibrated(void=f"{FILE_NAME} cannot be read by this release")


def test_another_format_is_not_read(tmp_path: Path, here: ClientRange) -> None:
    document = here.model_dump(mode="json") | {"format": "verdraft/client-range/v9"}
    (tmp_path / FILE_NAME).write_text(json.dumps(document))
    assert calibrated(tmp_path).range is None


def test_the_clients_code_is_part_of_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "client.py"
    source.write_text("a = 1")
    monkeypatch.setattr("worker.calibrated._CLIENT_SOURCES", tmp_path)
    before = client_host().client_digest
    assert client_host().client_digest == before
    source.write_text("a = 2")
    edited = client_host().client_digest
    source.rename(tmp_path / "other.py")
    assert len({before, edited, client_host().client_digest}) == 3


def test_it_is_published_with_what_makes_it_void(tmp_path: Path, here: ClientRange) -> None:
    settings = Settings(home=tmp_path / "home", model_root=tmp_path / "none", runtime_root=tmp_path / "none")
    document = HostCapability.model_validate(capabilities(settings))
    assert (document.client_range, document.client_range_void) == (None, "")
    keep(settings.home, here)
    document = HostCapability.model_validate(capabilities(settings))
    assert (document.client_range, document.client_range_void) == (here, "")
    keep(settings.home, here.model_copy(update={"host": here.host.model_copy(update={"kernel": "0.1"})}))
    assert "kernel" in HostCapability.model_validate(capabilities(settings)).client_range_void


def test_status_shows_it(tmp_path: Path, here: ClientRange, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERDRAFT_HOME", str(tmp_path))
    assert "client    never calibrated: run `verdraft calibrate`" in CliRunner().invoke(app, ["status"]).stdout
    keep(tmp_path, here)
    assert "client    calibrated 2026-11-30 04:05 UTC, up to 100" in CliRunner().invoke(app, ["status"]).stdout
