"""The Python client: every operation, as generated; what it sends again; and both clients against a real service."""

import asyncio
import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
import threading
import typing
import zipfile
from pathlib import Path
from types import ModuleType

import httpx
import pytest
from pydantic import TypeAdapter

import verdraft_client
from app.db.session import Database
from app.main import create_app
from app.openapi.document import METHODS, recorded
from app.settings import PROJECT_ROOT
from tests.api.test_measured import measure
from tests.conftest import LiveServer
from tests.factories import make_manifest, make_trace, manifest_document
from verdraft_client import AsyncClient, Client, Retries, VerdraftError, aio, client, models

SOURCES = PROJECT_ROOT / "clients/python"
AT_ONCE = Retries(first_s=0, longest_s=0)
FOLLOW = "follow"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_client", SOURCES / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def operations() -> list[str]:
    paths = create_app().openapi()["paths"]
    return [item[method]["operationId"] for item in paths.values() for method in METHODS if method in item]


@pytest.mark.parametrize("name", operations())
def test_every_operation_is_a_method_of_both(name: str) -> None:
    method = "watch" if name == FOLLOW else name
    assert inspect.isfunction(getattr(Client, method))
    waits = getattr(AsyncClient, method)
    assert inspect.isasyncgenfunction(waits) if name == FOLLOW else inspect.iscoroutinefunction(waits)


def test_what_is_generated_is_what_is_there() -> None:
    for name, content in generator().generated().items():
        written = (SOURCES / "verdraft_client" / name).read_text()
        assert content == written, f"{name}: run python clients/python/generate.py"


@pytest.mark.parametrize("name", sorted(set(operations()) - {FOLLOW}))
def test_the_recorded_answers_are_what_the_methods_return(name: str) -> None:
    for module, owner in ((client, Client), (aio, AsyncClient)):
        kind = typing.get_type_hints(getattr(owner, name), {**vars(models), **vars(module)})["return"]
        if kind not in {str, Path, type(None)}:
            TypeAdapter(kind).validate_python(recorded()[name]["answer"])


class Flaky:
    """Answers each of ``statuses`` in turn; 0 is a connection that breaks."""

    def __init__(self, *statuses: int) -> None:
        self.left = list(statuses)
        self.keys: list[str | None] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.keys.append(request.headers.get("idempotency-key"))
        status = self.left.pop(0)
        if not status:
            raise httpx.ConnectError("broken")
        return httpx.Response(status, json=recorded()["cancel"]["answer"], headers={"retry-after": "0"})


@pytest.mark.parametrize("statuses", [(200,), (503, 200), (0, 429, 502, 200), (504, 0, 0, 200)])
def test_what_may_pass_is_sent_again_with_the_same_key(statuses: tuple[int, ...]) -> None:
    service = Flaky(*statuses)
    with Client("http://x", retries=AT_ONCE, transport=httpx.MockTransport(service)) as verdraft:
        assert verdraft.cancel("0" * 64).state
    assert len(service.keys) == len(statuses)
    assert len(set(service.keys)) == 1
    assert service.keys[0]


@pytest.mark.parametrize(
    ("statuses", "told"), [((500,), 500), ((404,), 404), ((409,), 409), ((503,) * 4, 503), ((0,) * 4, None)]
)
def test_what_will_not_pass_is_told(statuses: tuple[int, ...], told: int | None) -> None:
    service = Flaky(*statuses)
    transport = httpx.MockTransport(service)
    with Client("http://x", retries=AT_ONCE, transport=transport) as verdraft, pytest.raises(VerdraftError) as error:
        verdraft.cancel("0" * 64, idempotency_key="mine")
    assert error.value.status == told
    assert set(service.keys) == {"mine"}
    assert service.left == []


def test_two_requests_have_two_keys_and_reading_has_none() -> None:
    service = Flaky(200, 200, 200)
    with Client("http://x", transport=httpx.MockTransport(service)) as verdraft:
        verdraft.cancel("0" * 64)
        verdraft.cancel("0" * 64)
        verdraft.read_experiment("0" * 64)
    assert len(set(service.keys)) == 3
    assert service.keys[2] is None


def test_a_part_of_an_address_stays_one_part() -> None:
    asked: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.raw_path)
        return httpx.Response(200, json=recorded()["read_experiment"]["answer"])

    with Client("http://x", transport=httpx.MockTransport(answer)) as verdraft:
        verdraft.read_experiment("../../healthz?x")
    assert asked == [b"/api/v1/experiments/..%2F..%2Fhealthz%3Fx"]


def fill(live_server: LiveServer) -> str:
    async def work() -> str:
        database = Database(live_server.settings.database_url.get_secret_value(), pooled=False)
        return await measure(database, live_server.settings.artifact_root)

    return asyncio.run(work())


def test_from_a_trace_to_a_verdict(live_server: LiveServer, tmp_path: Path) -> None:
    with Client(live_server.url) as verdraft:
        trace = verdraft.add_trace(make_trace().encode())
        again = verdraft.register(manifest_document(traces={"tasks": trace.digest}))
        assert again.state == "QUEUED"
        verdraft.cancel(again.id)
        assert [e.state for e in verdraft.watch(again.id)] == ["CANCELED"]
        assert verdraft.list_experiments(limit=5).items[0].id == again.id
        with pytest.raises(VerdraftError) as refused:
            verdraft.register({"name": "x"})
    assert refused.value.status == 422
    assert refused.value.problem.problems


def test_a_measured_experiment_in_models_and_files(live_server: LiveServer, tmp_path: Path) -> None:
    experiment = fill(live_server)
    with Client(live_server.url) as verdraft:
        report = verdraft.read_report(experiment)
        assert report.experiment == experiment
        assert {verdict.word for verdict in report.verdicts}
        assert verdraft.read_markdown(experiment).startswith("# ")
        bundle = verdraft.read_bundle(experiment, to=tmp_path / "bundle.tar.zst")
        assert bundle.stat().st_size
        with pytest.raises(VerdraftError):
            verdraft.read_bundle("f" * 64, to=tmp_path / "nothing")
        run = verdraft.list_runs(experiment)[0]
        assert verdraft.list_observations(str(run.id)).items
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["bundle.tar.zst"]


def test_watching_hears_of_a_change(live_server: LiveServer) -> None:
    with Client(live_server.url) as verdraft:
        trace = verdraft.add_trace(make_trace().encode())
        experiment = verdraft.register(manifest_document(traces={"tasks": trace.digest}))
        states: list[str] = []
        for now in verdraft.watch(experiment.id):
            states.append(now.state)
            if now.state == "QUEUED":
                threading.Timer(0.3, lambda: Client(live_server.url).cancel(experiment.id)).start()
    assert states == ["QUEUED", "CANCELED"]


async def test_the_one_that_waits(live_server: LiveServer, tmp_path: Path) -> None:
    async with AsyncClient(live_server.url) as verdraft:
        trace = await verdraft.add_trace(make_trace().encode())
        experiment = await verdraft.register(manifest_document(traces={"tasks": trace.digest}))
        states: list[str] = []
        async for now in verdraft.watch(experiment.id):
            states.append(now.state)
            if now.state == "QUEUED":
                await verdraft.cancel(experiment.id)
        assert states == ["QUEUED", "CANCELED"]
        assert (await verdraft.read_bundle(experiment.id, to=tmp_path / "b.tar.zst")).is_file()
        with pytest.raises(VerdraftError) as missing:
            await verdraft.read_experiment("f" * 64)
    assert missing.value.status == 404


def test_what_the_page_shows_runs(live_server: LiveServer, tmp_path: Path) -> None:
    experiment = fill(live_server)
    (tmp_path / "trace.jsonl").write_bytes(make_trace().encode())
    (tmp_path / "manifest.yaml").write_text(json.dumps(make_manifest().model_dump(mode="json", exclude_none=True)))
    (source,) = re.findall(r"```python\n(.*?)```", (SOURCES / "README.md").read_text(), re.DOTALL)
    source = source.replace("http://127.0.0.1:8400", live_server.url)
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    ran = subprocess.run(
        [sys.executable, "-c", source], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "FINISHED" in ran.stdout
    assert experiment


def test_it_is_ready_to_be_published(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)],
        cwd=SOURCES,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    package = {
        f"verdraft_client/{path.name}" for path in Path(verdraft_client.__file__).parent.glob("*.py*") if path.is_file()
    }
    assert package | {"verdraft_client/py.typed"} <= names


def test_it_needs_nothing_of_the_service() -> None:
    used = "\n".join(path.read_text() for path in (SOURCES / "verdraft_client").glob("*.py"))
    assert not re.findall(r"^\s*(?:from|import) (?:app|worker|tests)\b", used, re.MULTILINE)
