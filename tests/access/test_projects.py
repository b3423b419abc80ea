"""What belongs to one project does not exist for another: every route is asked, and new ones are found as well."""

import re
from collections.abc import Iterator

import httpx

from app.access.gate import PUBLIC, declared
from app.db.acting import acting_as
from app.db.session import Database
from app.domain.access import Principal, Scope
from app.figures import FIGURES
from app.main import create_app
from tests.access.conftest import CANARY, OURS, THEIRS, Guarded, Things
from tests.browser.story import Story, tell

ROUTES = [(method, path, scopes) for path, methods, scopes in declared(create_app()) for method in sorted(methods)]
SHARED = {"/api/v1/schemas/{name}", "/operations/accelerator"}
"""Formats and accelerators belong to no project."""
STREAMS = ("/events", "/stream")
"""They do not end by themselves."""
QUERIES = {
    "/experiments/{prefix}/mismatch": "?arm=ngram-k4&block=1&mode=timed&workload=tasks&request_id=r-0",
}
OF_A_PROJECT = [path for method, path, _ in ROUTES if method == "GET" and "{" in path and path not in SHARED]
BESIDE = ("/api/v1/compare", "/compare")
"""They take experiments by their query."""
LISTS = [
    path
    for method, path, scopes in ROUTES
    if method == "GET" and "{" not in path and path not in {*PUBLIC, *SHARED, *BESIDE} and Scope.ADMIN not in scopes
]
TRACE_PATHS = ("/api/v1/traces/{digest}", "/workloads/{prefix}")


def address(template: str, things: Things) -> str:
    """The template with the ids of ``things``."""
    digest = things.trace if template.startswith("/api/v1/traces") else things.imported
    known = {
        "experiment_id": things.experiment,
        "prefix": things.trace if template in TRACE_PATHS else things.experiment,
        "run_id": things.run,
        "session_id": things.session,
        "digest": digest,
        "name": next(iter(FIGURES)),
        "format_name": "jsonl",
        "workload": "tasks",
        "request_id": things.request,
        "webhook_id": things.webhook,
    }
    return re.sub(r"{(\w+)(?::\w+)?}", lambda match: known[match[1]], template) + QUERIES.get(template, "")


async def test_no_address_of_another_project_leads_anywhere(guarded: Guarded, things: Things) -> None:
    found = {}
    for path in OF_A_PROJECT:
        answer = await guarded.client.get(address(path, things), headers=guarded.headers(THEIRS, Scope.SUBMIT))
        if answer.status_code != 404 or CANARY in answer.text:
            found[path] = answer.status_code
    assert found == {}


async def test_the_same_addresses_lead_somewhere_for_their_own_project(guarded: Guarded, things: Things) -> None:
    """Else the test above would pass for addresses that never lead anywhere."""
    answers: dict[str, int] = {}
    for path in OF_A_PROJECT:
        if path not in QUERIES and not path.endswith(STREAMS):
            answer = await guarded.client.get(address(path, things), headers=guarded.headers(OURS, Scope.SUBMIT))
            answers[path] = answer.status_code
    assert {path: status for path, status in answers.items() if status != 200} == {}


async def test_what_does_not_exist_and_what_is_not_theirs_are_told_alike(guarded: Guarded, things: Things) -> None:
    for path, unknown in ((f"/api/v1/experiments/{things.experiment}", f"/api/v1/experiments/{'0' * 64}"),):
        theirs = await guarded.client.get(path, headers=guarded.headers(THEIRS))
        nobodys = await guarded.client.get(unknown, headers=guarded.headers(THEIRS))
        assert theirs.text.replace(things.experiment, "0" * 64) == nobodys.text


def changes(things: Things) -> Iterator[tuple[str, str, dict[str, object]]]:
    """Everything that changes something of a project, without what only an administrator may."""
    experiment = f"/api/v1/experiments/{things.experiment}"
    yield "POST", f"{experiment}/cancel", {}
    yield "PATCH", experiment, {"tags": ["x"]}
    yield "DELETE", f"/api/v1/imports/{things.imported}", {}
    yield "DELETE", f"/api/v1/webhooks/{things.webhook}", {}
    yield "POST", f"/api/v1/webhooks/{things.webhook}/ping", {}


async def test_nothing_of_another_project_can_be_changed(guarded: Guarded, things: Things) -> None:
    theirs = guarded.headers(THEIRS, Scope.SUBMIT)
    for method, path, body in changes(things):
        answer = await guarded.client.request(method, path, headers=theirs, json=body)
        assert answer.status_code == 404, (method, path, answer.text)
    ours = guarded.headers(OURS)
    experiment = (await guarded.client.get(f"/api/v1/experiments/{things.experiment}", headers=ours)).json()
    assert (experiment["state"], experiment["tags"]) == ("FINISHED", [])
    assert len((await guarded.client.get("/api/v1/imports", headers=ours)).json()) == 1


async def test_no_list_tells_of_another_project(guarded: Guarded, things: Things) -> None:
    told, ours = [], []
    for path in LISTS:
        theirs = await guarded.client.get(path, headers=guarded.headers(THEIRS, Scope.SUBMIT))
        assert theirs.status_code == 200, (path, theirs.text)
        if CANARY in theirs.text or things.experiment[:12] in theirs.text or things.trace[:12] in theirs.text:
            told.append(path)
        if CANARY in (await guarded.client.get(path, headers=guarded.headers(OURS))).text:
            ours.append(path)
    assert told == []
    assert {"/", "/api/v1/experiments", "/api/v1/imports"} <= set(ours), "the canary must be where it belongs"


async def test_a_comparison_with_another_projects_experiment_is_refused(
    guarded: Guarded, things: Things, database: Database
) -> None:
    story = Story(blocks=1, planned=1, name="own", requests=4)
    with acting_as(Principal("test", THEIRS, Scope.SUBMIT, "test")):
        own = await tell(database, story, guarded.settings.artifact_root)
    report, headers = f"/api/v1/experiments/{own.digest}/report", guarded.headers(THEIRS)
    assert (await guarded.client.get(report, headers=headers)).status_code == 200
    refused = await guarded.client.get(report, params={"against": things.experiment}, headers=headers)
    assert refused.status_code == 404
    beside = await guarded.client.post(
        "/api/v1/imports",
        params={"label": "x", "experiment": things.experiment},
        content=b"{}",
        headers={**guarded.headers(THEIRS, Scope.SUBMIT), "content-type": "application/json"},
    )
    assert beside.status_code in {404, 422}


async def test_nothing_stands_beside_another_projects_experiment(guarded: Guarded, things: Things) -> None:
    for path in BESIDE:
        query = {"of": [things.experiment, "0" * 64]}
        answer = await guarded.client.get(path, params=query, headers=guarded.headers(THEIRS))
        assert answer.status_code == 404 or CANARY not in answer.text, (path, answer.text)
        assert CANARY not in answer.text


async def test_an_administrator_sees_every_project(guarded: Guarded, things: Things) -> None:
    headers = guarded.headers(THEIRS, Scope.ADMIN)
    answer: httpx.Response = await guarded.client.get(f"/api/v1/experiments/{things.experiment}", headers=headers)
    assert answer.status_code == 200
