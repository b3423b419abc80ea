"""The commands around access, against a real service that wants to know who asks."""

import json
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.access.first import admin_token, first_admin_token
from app.cli import app
from app.credentials import credentials_file, token_for
from app.settings import Settings
from tests.cli.conftest import Verdraft
from tests.conftest import LiveServer


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"access": "required"})


@pytest.fixture(autouse=True)
def own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may be logged in somewhere."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("VERDRAFT_TOKEN", raising=False)


@pytest.fixture
def admin(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> str:
    token = admin_token(settings).token
    monkeypatch.setenv("VERDRAFT_TOKEN", token)
    return token


def test_without_a_token_it_says_what_to_do(verdraft: Verdraft, live_server: LiveServer) -> None:
    refused = verdraft("token", "list", "--url", live_server)
    assert refused.exit_code == 1
    assert "verdraft token create" in refused.output


def test_a_token_is_made_used_and_revoked(
    verdraft: Verdraft, live_server: LiveServer, admin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert verdraft("project", "create", "team-a", "--url", live_server).exit_code == 0
    asked = ("token", "create", "ci", "--project", "team-a", "--scope", "submit", "--days", "3", "--json")
    made = json.loads(verdraft(*asked, "--url", live_server).output)
    monkeypatch.setenv("VERDRAFT_TOKEN", made["token"])
    refused = verdraft("token", "list", "--url", live_server)
    assert "token:ci may submit; this needs admin" in refused.output
    monkeypatch.setenv("VERDRAFT_TOKEN", admin)
    assert verdraft("token", "revoke", made["id"], "--url", live_server).exit_code == 0
    listed = verdraft("token", "list", "--url", live_server).output
    assert made["token"] not in listed
    assert f"id={made['id']}" in listed
    monkeypatch.setenv("VERDRAFT_TOKEN", made["token"])
    assert (
        "revoked"
        in verdraft("workload", "list", "--url", live_server).output
        + verdraft("accelerator", "list", "--url", live_server).output
    )


def test_a_login_is_kept_for_its_owner_and_for_this_service_alone(live_server: LiveServer, settings: Settings) -> None:
    token = admin_token(settings).token
    kept = CliRunner().invoke(app, ["login", "--url", str(live_server)], input=f"{token}\n")
    assert kept.exit_code == 0, kept.output
    assert token not in kept.output
    assert stat.S_IMODE(credentials_file().stat().st_mode) == 0o600
    assert token_for(f"{live_server}/api/v1") == token
    assert token_for("http://127.0.0.1:1") is None
    assert CliRunner().invoke(app, ["accelerator", "list", "--url", str(live_server)]).exit_code == 0
    CliRunner().invoke(app, ["logout", "--url", str(live_server)])
    assert token_for(str(live_server)) is None


def test_a_wrong_token_is_not_kept(live_server: LiveServer) -> None:
    refused = CliRunner().invoke(app, ["login", "--url", str(live_server)], input="vdt_nonsense\n")
    assert refused.exit_code == 1
    assert not credentials_file().exists()


def test_the_first_token_is_made_once(settings: Settings) -> None:
    made = first_admin_token(settings)
    assert made is not None
    assert made.scope == "admin"
    assert first_admin_token(settings) is None
    assert first_admin_token(settings.model_copy(update={"access": "open"})) is None


def test_the_audit_log_is_read(verdraft: Verdraft, live_server: LiveServer, admin: str) -> None:
    verdraft("project", "create", "team-b", "--url", live_server)
    newest = verdraft("audit", "--limit", "1", "--url", live_server).output
    assert "token:first-admin (default)  project.create  project:team-b" in newest


def test_what_is_no_id_is_refused_before_anybody_is_asked(verdraft: Verdraft) -> None:
    refused = verdraft("token", "revoke", "../x", "--url", "http://127.0.0.1:1")
    assert "is not the id of a token" in refused.output
