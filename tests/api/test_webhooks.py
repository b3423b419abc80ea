"""Webhooks against a real receiver: signed, at least once, with the same id; and never to where they must not go."""

import json
import re
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

import httpx
import pytest

from app.comparisons.cache import ReportCache
from app.comparisons.service import ComparisonService
from app.db.session import Database
from app.domain.webhook import RETRY_AFTER_S, DeliveryState
from app.main import create_app
from app.settings import PROJECT_ROOT, Settings
from app.webhooks.delivering import Deliverer
from app.webhooks.repository import WebhookRepository
from app.webhooks.sending import send
from tests.api.test_boundary import check_shape
from tests.api.test_experiments import EXPERIMENTS, upload
from tests.api.test_measured import measure
from tests.factories import manifest_document

WEBHOOKS = "/api/v1/webhooks"
PAGE = (PROJECT_ROOT / "docs/webhooks.md").read_text()


@dataclass
class Receiver:
    """Answers with ``status`` and keeps what came."""

    url: str = ""
    status: int = 204
    came: list[tuple[dict[str, str], bytes]] = field(default_factory=list[tuple[dict[str, str], bytes]])


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    known = Receiver()

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            known.came.append(({k.lower(): v for k, v in self.headers.items()}, body))
            self.send_response(known.status)
            self.send_header("location", "http://127.0.0.1:1/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            del code, size

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    known.url = f"http://127.0.0.1:{server.server_port}/hook"
    yield known
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def near(settings: Settings) -> Settings:
    """Where plain http to this host is allowed."""
    return settings.model_copy(update={"webhook_loopback": True})


@pytest.fixture
async def asking(near: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """Outside of the application's lifespan, so that it sends nothing by itself."""
    transport = httpx.ASGITransport(create_app(near))
    async with httpx.AsyncClient(transport=transport, base_url=f"http://127.0.0.1:{near.port}") as client:
        yield client


@pytest.fixture
def deliverer(database: Database, near: Settings) -> Deliverer:
    return Deliverer(database, near, ComparisonService(database, ReportCache(), near))


@pytest.fixture
async def ended(asking: httpx.AsyncClient, database: Database, near: Settings, receiver: Receiver) -> None:
    """A webhook, and then an experiment with a verdict."""
    await hook(asking, receiver.url)
    await measure(database, near.artifact_root)


async def hook(client: httpx.AsyncClient, url: str) -> dict[str, Any]:
    made = await client.post(WEBHOOKS, json={"url": url})
    assert made.status_code == 201, made.text
    return made.json()


async def deliveries(client: httpx.AsyncClient, made: dict[str, Any]) -> list[dict[str, Any]]:
    return (await client.get(f"{WEBHOOKS}/{made['id']}/deliveries")).json()


async def make_due(database: Database) -> None:
    async with database.transaction() as session:
        await (await session.connection()).exec_driver_sql("UPDATE webhook_delivery SET due_at = now()")


def is_genuine(*arguments: Any, **options: Any) -> bool:
    """The page's own snippet, as a receiver would copy it."""
    (source,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    scope: dict[str, Any] = {}
    exec(source, scope)  # noqa: S102
    return scope["is_genuine"](*arguments, **options)


async def test_a_verdict_is_told_once_and_signed(
    asking: httpx.AsyncClient, database: Database, near: Settings, receiver: Receiver, deliverer: Deliverer
) -> None:
    made = await hook(asking, receiver.url)
    experiment = await measure(database, near.artifact_root)
    assert await deliverer.look() == 1
    assert await deliverer.look() == 0
    ((headers, body),) = receiver.came
    message = json.loads(body)
    assert message["event"] == headers["verdraft-event"] == "experiment.finished"
    assert message["experiment"]["id"] == experiment
    assert message["experiment"]["verdicts"]
    assert is_genuine(made["secret"], headers["verdraft-signature"], body)
    (delivery,) = await deliveries(asking, made)
    assert (delivery["state"], delivery["attempts"], delivery["last_status"]) == ("DELIVERED", 1, 204)
    assert delivery["id"] == message["id"] == headers["verdraft-delivery"]


async def test_the_snippet_of_the_page_accepts_nothing_else(
    asking: httpx.AsyncClient, receiver: Receiver, deliverer: Deliverer
) -> None:
    made = await hook(asking, receiver.url)
    await asking.post(f"{WEBHOOKS}/{made['id']}/ping")
    await deliverer.look()
    ((headers, body),) = receiver.came
    signed = headers["verdraft-signature"]
    assert is_genuine(made["secret"], signed, body)
    assert not is_genuine(made["secret"] + "x", signed, body)
    assert not is_genuine(made["secret"], signed, body + b" ")
    assert not is_genuine(made["secret"], signed, body, tolerance_s=-1)
    later = re.sub(r"t=\d+", f"t={int(time.time()) + 1}", signed)
    assert not is_genuine(made["secret"], later, body)
    for broken in ("", "t=1", "v1=00", "t=x,v1=y", "nonsense"):
        assert not is_genuine(made["secret"], broken, body)


async def test_a_cancelled_experiment_is_told_too_and_earlier_ends_are_not(
    asking: httpx.AsyncClient, receiver: Receiver, deliverer: Deliverer
) -> None:
    document = manifest_document(traces={"tasks": await upload(asking)})
    for name in ("before", "after"):
        identity = (await asking.post(EXPERIMENTS, json={**document, "name": name})).json()["id"]
        if name == "after":
            await hook(asking, receiver.url)
        await asking.post(f"{EXPERIMENTS}/{identity}/cancel")
    await deliverer.look()
    ((_, body),) = receiver.came
    told = json.loads(body)
    assert (told["event"], told["experiment"]["name"]) == ("experiment.canceled", "after")


@pytest.mark.parametrize("status", [500, 302, 404])
async def test_what_is_not_delivered_is_sent_again_under_the_same_id_until_it_is(
    asking: httpx.AsyncClient, deliverer: Deliverer, receiver: Receiver, ended: None, status: int
) -> None:
    (made,) = (await asking.get(WEBHOOKS)).json()
    receiver.status = status
    await deliverer.look()
    (delivery,) = await deliveries(asking, made)
    assert (delivery["state"], delivery["last_error"]) == ("PENDING", f"HTTP {status}")
    assert await deliverer.look() == 0  # not before it is due
    receiver.status = 200
    await make_due(deliverer._database)
    await deliverer.look()
    (delivery,) = await deliveries(asking, made)
    assert (delivery["state"], delivery["attempts"]) == ("DELIVERED", 2)
    (first, one), (second, other) = receiver.came
    assert one == other
    assert first["verdraft-delivery"] == second["verdraft-delivery"]


async def test_one_whose_sender_died_is_sent_again(
    asking: httpx.AsyncClient, database: Database, near: Settings, receiver: Receiver, deliverer: Deliverer
) -> None:
    await hook(asking, receiver.url)
    await measure(database, near.artifact_root)
    async with database.transaction() as session:
        repository = WebhookRepository(session)
        await repository.note_ends(1)
        assert len(await repository.take_due(8)) == 1  # and then nothing more is heard of it
    assert await deliverer.look() == 0
    await make_due(database)
    assert await deliverer.look() == 1
    assert len(receiver.came) == 1


async def test_what_never_arrives_fails_and_in_the_end_disables_the_webhook(
    asking: httpx.AsyncClient, database: Database, near: Settings, receiver: Receiver, deliverer: Deliverer
) -> None:
    made = await hook(asking, receiver.url)
    await measure(database, near.artifact_root)
    receiver.status = 500
    for _ in range(len(RETRY_AFTER_S) + 1):
        await make_due(database)
        await deliverer.look()
    (delivery,) = await deliveries(asking, made)
    assert (delivery["state"], delivery["attempts"]) == ("FAILED", len(RETRY_AFTER_S) + 1)
    assert (await asking.get(f"{WEBHOOKS}/{made['id']}")).json()["disabled_at"] is None
    async with database.transaction() as session:
        repository, hook_id = WebhookRepository(session), UUID(made["id"])
        for _ in range(2):
            failed = await repository.ping(hook_id)
            await repository.record(failed, status=500, error="HTTP 500", state=DeliveryState.FAILED, wait_s=0)
        await (await session.connection()).exec_driver_sql(
            "UPDATE webhook_delivery SET state = 'PENDING', due_at = now() WHERE experiment_id IS NOT NULL"
        )
    await deliverer.look()
    assert "HTTP 500" in (await asking.get(f"{WEBHOOKS}/{made['id']}")).json()["disabled_because"]
    enabled = await asking.post(f"{WEBHOOKS}/{made['id']}/enable")
    assert enabled.json()["disabled_at"] is None


async def test_the_secret_is_shown_once_and_the_webhook_goes_with_its_deliveries(
    asking: httpx.AsyncClient, receiver: Receiver, deliverer: Deliverer
) -> None:
    made = await hook(asking, receiver.url)
    await asking.post(f"{WEBHOOKS}/{made['id']}/ping")
    await deliverer.look()
    for path in (WEBHOOKS, f"{WEBHOOKS}/{made['id']}", f"{WEBHOOKS}/{made['id']}/deliveries"):
        assert made["secret"] not in (await asking.get(path)).text
    assert (await asking.delete(f"{WEBHOOKS}/{made['id']}")).status_code == 204
    check_shape(await asking.get(f"{WEBHOOKS}/{made['id']}/deliveries"), 404)


@pytest.mark.parametrize(
    "url", ["http://ci.example.org", "https://127.0.0.1/x", "https://169.254.169.254/", "https://localhost/", "x"]
)
async def test_addresses_that_are_not_public_are_refused(client: httpx.AsyncClient, url: str) -> None:
    problem = check_shape(await client.post(WEBHOOKS, json={"url": url}), 422)
    assert problem["problems"][0]["field"] == "url"


async def test_with_access_control_no_setting_opens_loopback(near: Settings) -> None:
    assert not near.model_copy(update={"access": "required"}).webhooks_to_loopback


async def test_a_name_that_resolves_to_a_private_address_is_not_connected_to(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolved(*_: object, **__: object) -> list[tuple[object, ...]]:
        addresses = ("93.184.216.34", "127.0.0.1")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    port = receiver.url.rpartition(":")[2].partition("/")[0]
    sent = await send(f"http://rebound.example.org:{port}/hook", b"{}", {}, loopback=False)
    assert sent.status is None
    assert "NotPublic" in str(sent.error)
    assert receiver.came == []


async def test_more_webhooks_than_anybody_needs_are_refused(asking: httpx.AsyncClient, receiver: Receiver) -> None:
    for _ in range(20):
        await hook(asking, receiver.url)
    check_shape(await asking.post(WEBHOOKS, json={"url": receiver.url}), 422)


def test_the_page_says_what_the_code_does() -> None:
    assert str(len(RETRY_AFTER_S) + 1) == {"seven": "7"}[re.findall(r"(\w+) attempts failed", PAGE)[0]]
    assert "5 s, 30 s, 2 min, 10 min, 1 h and 6 h" in PAGE
    assert RETRY_AFTER_S == (5, 30, 120, 600, 3600, 21600)
