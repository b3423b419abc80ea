"""A service that wants to know who asks, with two projects, and something of each kind in one of them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from app.access.schemas import TokenWish
from app.access.service import AccessService
from app.db.acting import acting_as
from app.db.session import Database
from app.domain.access import Principal, Scope
from app.main import create_app
from app.settings import Settings
from tests.browser.story import Story, tell
from tests.conftest import client_of

OURS, THEIRS = "alpha", "beta"
CANARY = "canary-of-alpha"
RESULT = Path(__file__).parent.parent / "data" / "interop" / "vllm_bench_ngram.json"


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@dataclass
class Guarded:
    """The service with access required; ``tokens`` by project and scope."""

    client: httpx.AsyncClient
    settings: Settings
    access: AccessService
    tokens: dict[tuple[str, Scope], str] = field(default_factory=dict)

    def headers(self, project: str, scope: Scope = Scope.READ) -> dict[str, str]:
        return bearer(self.tokens[project, scope])


@pytest.fixture
async def guarded(settings: Settings, database: Database) -> AsyncIterator[Guarded]:
    required = settings.model_copy(update={"access": "required"})
    access = AccessService(database)
    async with client_of(create_app(required), required) as client:
        made = Guarded(client, required, access)
        for project in (OURS, THEIRS):
            await access.create_project(project)
            for scope in Scope:
                wish = TokenWish(name=f"{project}-{scope}", project=project, scope=scope)
                made.tokens[project, scope] = (await access.create_token(wish)).token
        yield made


@dataclass(frozen=True)
class Things:
    """The ids of what belongs to one project."""

    experiment: str
    run: str
    session: str
    trace: str
    imported: str
    webhook: str
    request: str


@pytest.fixture
async def things(guarded: Guarded, database: Database) -> Things:
    """An experiment with evidence, its traces and an imported result, all of the project alpha."""
    story = Story(blocks=1, planned=1, name=CANARY, requests=4)
    with acting_as(Principal("test", OURS, Scope.SUBMIT, "test")):
        manifest = await tell(database, story, guarded.settings.artifact_root)
    ours = guarded.headers(OURS, Scope.SUBMIT)
    answer = await guarded.client.post(
        "/api/v1/imports",
        params={"label": CANARY, "experiment": manifest.digest},
        content=RESULT.read_bytes(),
        headers={**ours, "content-type": "application/json"},
    )
    assert answer.status_code == 201, answer.text
    runs = (await guarded.client.get(f"/api/v1/experiments/{manifest.digest}/runs", headers=ours)).json()
    hook = await guarded.client.post("/api/v1/webhooks", headers=ours, json={"url": "https://hooks.example/verdraft"})
    assert hook.status_code == 201, hook.text
    observations = f"/api/v1/runs/{runs[0]['id']}/observations"
    return Things(
        experiment=manifest.digest,
        run=runs[0]["id"],
        session=runs[0]["session_id"],
        trace=manifest.workloads[0].trace,
        imported=answer.json()["digest"],
        webhook=hook.json()["id"],
        request=(await guarded.client.get(observations, headers=ours)).json()["items"][0]["request_id"],
    )
