"""A bundle and a deletion from the command line, against a real service."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Verdraft
from tests.conftest import LiveServer
from tests.factories import make_trace, manifest_document


@pytest.fixture
def canceled(verdraft: Verdraft, live_server: LiveServer, tmp_path: Path) -> str:
    """An experiment that ended without evidence."""
    manifest, trace, url = tmp_path / "manifest.json", tmp_path / "tasks.jsonl", live_server.url
    manifest.write_text(json.dumps(manifest_document()))
    trace.write_bytes(make_trace().encode())
    assert verdraft("workload", "upload", trace, "--url", url).exit_code == 0
    identity = verdraft("submit", manifest, "--url", url).stdout.split()[1]
    assert verdraft("cancel", identity, "--url", url).exit_code == 0
    return identity


def told(output: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in output.splitlines() if ": " in line)


def test_the_root_is_printed_when_a_bundle_is_made_and_when_it_is_verified(
    verdraft: Verdraft, live_server: LiveServer, canceled: str, tmp_path: Path
) -> None:
    path = tmp_path / "bundle.tar.zst"
    made = verdraft("bundle", canceled, "-o", path, "--with-raw", "--url", live_server.url)
    assert made.exit_code == 0, made.output
    report = tmp_path / "report.md"
    verified = verdraft("verify", path, "--report", report)
    assert verified.exit_code == 0, verified.output
    assert report.read_text().startswith("# ")
    report.unlink()
    assert told(made.stdout)["root"] == told(verified.stdout)["root"]
    assert told(verified.stdout) | {"experiment": canceled, "accelerator": "cpu"} == told(verified.stdout)
    path.write_bytes(path.read_bytes()[:-20])
    assert verdraft("verify", path, "--report", report).exit_code == 1
    assert not report.exists()
    assert [p.name for p in tmp_path.iterdir() if p.name.endswith(".part")] == []


def test_nothing_is_deleted_without_a_yes(verdraft: Verdraft, live_server: LiveServer, canceled: str) -> None:
    url = ("--url", live_server.url)
    asked = verdraft("delete", canceled[:12], *url)
    assert asked.exit_code == 1
    assert f"demo ({canceled[:12]}, CANCELED) would be gone with all its evidence" in asked.stderr
    assert canceled[:12] in verdraft("list", *url).stdout
    assert told(verdraft("delete", canceled[:12], "--yes", *url).stdout)["id"] == canceled
    assert canceled[:12] not in verdraft("list", *url).stdout


def test_a_sweep_says_what_it_took(
    verdraft: Verdraft, live_server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = live_server.settings
    monkeypatch.setenv("VERDRAFT_DATABASE_URL", settings.database_url.get_secret_value())
    monkeypatch.setenv("VERDRAFT_HOME", str(settings.home))
    swept = verdraft("artifacts", "sweep", "--json")
    assert swept.exit_code == 0, swept.output
    assert set(json.loads(swept.stdout).values()) == {0}
