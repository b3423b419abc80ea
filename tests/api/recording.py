"""Real answers of a small service, one for each operation, as examples for the OpenAPI document.

``VERDRAFT_RECORD=1 pytest tests/api/test_openapi.py -k recorded`` writes them anew.
"""

from dataclasses import dataclass, field
from typing import Any

import httpx

from app.db.session import Database
from app.settings import Settings
from tests.api.test_expiry import publish
from tests.api.test_interop import VLLM
from tests.api.test_measured import measure
from tests.factories import make_manifest, make_trace, manifest_document

ITEMS_MAX = 2
TEXT_MAX = 600
BINARY = "(binary)"
SECRET = "(shown once)"
HIDDEN = frozenset({"token", "secret", "password"})

Recorded = dict[str, Any]


@dataclass
class Recorder:
    """Asks and keeps."""

    client: httpx.AsyncClient
    kept: Recorded = field(default_factory=Recorded)

    async def ask(
        self,
        operation: str,
        method: str,
        path: str,
        *,
        body: Any = None,
        content: bytes | None = None,
        **parameters: Any,
    ) -> Any:
        """The answer's JSON; what is kept of it is short."""
        query = {name: value for name, value in parameters.items() if f"{{{name}}}" not in path}
        address = path.format(**parameters)
        options: dict[str, Any] = {"json": body} if content is None else {"content": content}
        if content is not None:
            options["headers"] = {"content-type": "application/json" if body is None else body}
        answer = await self.client.request(method, address, params=query, **({} if method == "GET" else options))
        assert answer.is_success, (operation, answer.status_code, answer.text)
        entry: Recorded = {"parameters": {name: value for name, value in parameters.items() if value is not None}}
        if content is not None or body is not None:
            entry["body"] = _short(body) if content is None else content.decode()[:TEXT_MAX]
        if answer.content:
            entry["answer"] = _short(_read(answer))
        self.kept[operation] = {key: value for key, value in entry.items() if value}
        return _read(answer) if answer.content else None


def _read(answer: httpx.Response) -> Any:
    kind = answer.headers.get("content-type", "")
    if kind.startswith("application/json"):
        return answer.json()
    return answer.text[:TEXT_MAX] if kind.startswith("text/") else BINARY


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: SECRET if key in HIDDEN else _short(inner) for key, inner in value.items()}
    return [_short(item) for item in value[:ITEMS_MAX]] if isinstance(value, list) else value


async def record(client: httpx.AsyncClient, database: Database, settings: Settings) -> Recorded:
    """One call of each operation, in an order in which each can succeed."""
    recorder = Recorder(client)
    ask, api = recorder.ask, "/api/v1"
    experiment = await measure(database, settings.artifact_root)
    one = f"{api}/experiments/{{experiment_id}}"
    of: dict[str, Any] = {"experiment_id": experiment}
    await ask("health", "GET", "/healthz")
    await ask("metrics", "GET", "/metrics")
    await ask("add_trace", "POST", f"{api}/traces", content=make_trace().encode(), body="application/jsonl")
    trace = (await ask("list_traces", "GET", f"{api}/traces"))[0]["digest"]
    await ask("read_trace", "GET", f"{api}/traces/{{digest}}", digest=trace)
    document = manifest_document(name="second", traces={"tasks": trace})
    await ask("check_manifest", "POST", f"{api}/preflight", body=document)
    second = (await ask("register", "POST", f"{api}/experiments", body=document))["id"]
    await ask("list_experiments", "GET", f"{api}/experiments", limit=2)
    await ask("read_experiment", "GET", one, **of)
    await ask("shelve", "PATCH", one, body={"tags": ["nightly"]}, **of)
    await ask("compare_experiments", "GET", f"{api}/compare", of=[experiment[:12], second[:12]])
    await ask("cancel", "POST", f"{one}/cancel", experiment_id=second)
    await ask("delete_experiment", "DELETE", one, experiment_id=second)
    await publish(database, make_manifest().runtime)
    for operation, tail in (
        ("read_manifest", "/manifest"),
        ("list_sessions", "/sessions"),
        ("read_report", "/report"),
        ("read_markdown", "/report.md"),
        ("read_printable", "/report.html"),
        ("read_bundle", "/bundle"),
        ("list_cases", "/cases"),
        ("export_cases", "/cases.csv"),
    ):
        await ask(operation, "GET", one + tail, **of)
    recorder.kept["follow"] = {"answer": 'event: change\r\ndata: {"experiment": "…", "version": 7}\r\n\r\n'}
    figure = (await ask("list_figures", "GET", f"{one}/figures", **of))[0]["name"]
    await ask("read_figure", "GET", f"{one}/figures/{{name}}", name=figure, **of)
    await ask("read_figure_csv", "GET", f"{one}/figures/{{name}}.csv", name=figure, **of)
    await ask("export", "GET", f"{one}/export/{{format_name}}", format_name="csv", **of)
    runs = await ask("list_runs", "GET", f"{one}/runs", **of)
    run: dict[str, Any] = {"run_id": runs[0]["id"]}
    await ask("read_run", "GET", f"{api}/runs/{{run_id}}", **run)
    for operation, tail in (
        ("list_observations", "/observations"),
        ("list_series", "/series"),
        ("read_timeline", "/timeline"),
        ("read_timeline_figure", "/figures/timeline"),
    ):
        await ask(operation, "GET", f"{api}/runs/{{run_id}}{tail}", **run)
    await ask("read_log", "GET", f"{api}/sessions/{{session_id}}/log", session_id=runs[0]["session_id"])
    await _operations(recorder, experiment)
    await _access(recorder)
    return recorder.kept


async def _operations(recorder: Recorder, experiment: str) -> None:
    ask, api = recorder.ask, "/api/v1"
    await ask("list_capabilities", "GET", f"{api}/capabilities")
    await ask("read_operations", "GET", f"{api}/operations")
    place = (await ask("list_accelerators", "GET", f"{api}/accelerators"))[0]
    where: dict[str, Any] = {"host": place["host"], "name": place["name"]}
    named = f"{api}/accelerators/{{host}}/{{name}}"
    await ask("quarantine", "POST", f"{named}/quarantine", body={"reason": "fell off the bus"}, **where)
    await ask("release", "POST", f"{named}/release", body={"reason": "seated again"}, **where)
    await ask("list_schemas", "GET", f"{api}/schemas")
    await ask("read_schema", "GET", f"{api}/schemas/{{name}}", name="trace-header")
    made = await ask(
        "add_import",
        "POST",
        f"{api}/imports",
        content=VLLM,
        body="application/json",
        label="host B",
        experiment=experiment,
    )
    await ask("list_imports", "GET", f"{api}/imports")
    await ask(
        "list_experiment_imports", "GET", f"{api}/experiments/{{experiment_id}}/imports", experiment_id=experiment
    )
    await ask("remove_import", "DELETE", f"{api}/imports/{{digest}}", digest=made["digest"])
    hook = await ask("create_webhook", "POST", f"{api}/webhooks", body={"url": "https://ci.example.org/verdraft"})
    one = f"{api}/webhooks/{{webhook_id}}"
    which: dict[str, Any] = {"webhook_id": hook["id"]}
    await ask("list_webhooks", "GET", f"{api}/webhooks")
    await ask("read_webhook", "GET", one, **which)
    await ask("enable_webhook", "POST", f"{one}/enable", **which)
    await ask("ping_webhook", "POST", f"{one}/ping", **which)
    await ask("list_deliveries", "GET", f"{one}/deliveries", **which)
    await ask("delete_webhook", "DELETE", one, **which)


async def _access(recorder: Recorder) -> None:
    ask, api = recorder.ask, "/api/v1"
    await ask("whoami", "GET", f"{api}/whoami")
    await ask("create_project", "POST", f"{api}/projects", body={"name": "search"})
    await ask("list_projects", "GET", f"{api}/projects")
    wish = {"name": "ci", "project": "search", "scope": "submit", "expires_in_days": 90}
    token = await ask("create_token", "POST", f"{api}/tokens", body=wish)
    await ask("list_tokens", "GET", f"{api}/tokens")
    await ask("revoke_token", "DELETE", f"{api}/tokens/{{token_id}}", token_id=token["id"])
    account = {"name": "ada", "password": "correct horse battery staple", "project": "search", "scope": "read"}
    await ask("set_account", "POST", f"{api}/accounts", body=account)
    await ask("list_accounts", "GET", f"{api}/accounts")
    await ask("disable_account", "DELETE", f"{api}/accounts/{{name}}", name="ada")
    await ask("read_audit", "GET", f"{api}/audit", limit=2)
