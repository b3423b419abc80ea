"""``verdraft plan``: a manifest's power at a given or assumed noise, without any service."""

import json
from pathlib import Path

from typer.testing import CliRunner

from app.cli import app

EXAMPLE = Path(__file__).parents[2] / "examples" / "single-arm.yaml"


def test_a_given_noise_is_planned_with_and_named() -> None:
    result = CliRunner().invoke(app, ["plan", str(EXAMPLE), "--noise", "0.02"])
    assert result.exit_code == 0, result.output
    assert "noise of 2.0%" in result.output
    assert "noise: as given" in result.output


def test_an_assumed_noise_says_that_it_is_one() -> None:
    result = CliRunner().invoke(app, ["plan", str(EXAMPLE), "--json"])
    plan = json.loads(result.output)
    assert {c["noise"]["source"].split(",")[0] for c in plan["conditions"]} == {"an assumption"}
    assert all(c["at"][0]["power"] == 0.8 for c in plan["conditions"])
