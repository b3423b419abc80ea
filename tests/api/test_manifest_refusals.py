"""Python, the API and the command refuse a manifest in the same words, whichever of them a user asks."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from app.cli import app
from app.domain.errors import ManifestRefused
from app.domain.manifest import parse_manifest
from tests.domain.bad_manifests import BAD


def parsed(document: dict[str, Any]) -> list[dict[str, str]]:
    with pytest.raises(ManifestRefused) as refused:
        parse_manifest(document)
    return [{"field": p.field, "message": p.message, "remedy": p.remedy} for p in refused.value.problems]


@pytest.mark.parametrize("case", BAD)
async def test_python_api_and_command_agree(client: httpx.AsyncClient, tmp_path: Path, case: str) -> None:
    document = BAD[case].document()
    expected = parsed(document)
    assert [problem["field"] for problem in expected] == [BAD[case].field]

    answer = await client.post("/api/v1/experiments", json=document)
    assert answer.status_code == 422
    assert answer.json()["problems"] == expected

    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(document))
    command = CliRunner().invoke(app, ["manifest", "validate", str(path), "--json"])
    assert command.exit_code == 1
    assert json.loads(command.stdout)["problems"] == expected


async def test_a_nul_is_refused_before_the_manifest_is_read(client: httpx.AsyncClient, tmp_path: Path) -> None:
    document = BAD["line break"].document() | {"name": "a\x00b"}
    answer = await client.post("/api/v1/experiments", json=document)
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(document))
    command = CliRunner().invoke(app, ["manifest", "validate", str(path), "--json"])
    assert answer.status_code == 422
    assert json.loads(command.stdout)["problems"] == answer.json()["problems"]
    assert "NUL" in answer.json()["detail"]
