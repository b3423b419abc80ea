"""What docs/api.md says of the API is what its OpenAPI document says."""

import re

from app.main import create_app
from app.settings import PROJECT_ROOT, Settings

PAGE = (PROJECT_ROOT / "docs/api.md").read_text()
DOCUMENT = create_app().openapi()


def test_every_error_that_the_api_can_give_has_its_row() -> None:
    rows = " ".join(line.split("|")[1] for line in PAGE.splitlines() if re.match(r"\| \d{3}", line))
    given = {status for item in DOCUMENT["paths"].values() for o in item.values() for status in o["responses"]}
    assert {status for status in given if status[0] in "45"} <= set(re.findall(r"\d{3}", rows))


def test_the_paths_it_names_exist() -> None:
    known = {re.sub(r"\{[^}]*\}", "X", path) for path in DOCUMENT["paths"]}
    named = {re.sub(r"\{[^}]*\}|\bID\b", "X", path) for path in re.findall(r"/api/v1/[\w/{}]+", PAGE)}
    assert named <= known


def test_what_is_kept_how_long_is_the_setting() -> None:
    hours = re.findall(r"VERDRAFT_IDEMPOTENCY_HOURS` \((\d+)\)", PAGE)
    assert hours == [str(Settings.model_fields["idempotency_hours"].default)]


def test_the_documents_with_a_tag_are_those() -> None:
    tagged = {
        item["get"]["operationId"]
        for item in DOCUMENT["paths"].values()
        if "get" in item and any(p["name"] == "If-None-Match" for p in item["get"].get("parameters", []))
    }
    assert tagged == {"read_experiment", "read_manifest", "read_report", "read_trace"}
