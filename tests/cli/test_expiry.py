"""The command prints EXPIRED where the pins are gone, and the gate does not pass on such a verdict."""

import asyncio
import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from app.db.session import Database
from app.domain.report import Report, build_report
from app.domain.rests_on import against_experiment
from app.gate_command import GateExit
from app.settings import Settings
from tests.api.test_expiry import UPGRADED, publish
from tests.api.test_measured import measure
from tests.cli.conftest import Verdraft
from tests.conftest import LiveServer
from tests.domain.evidence_factory import Dials, make_evidence
from tests.domain.evidence_factory import make_manifest as make_evidence_manifest
from tests.factories import make_manifest


def _published(settings: Settings, runtime: str) -> None:
    async def work() -> None:
        database = Database(settings.database_url.get_secret_value())
        try:
            await publish(database, runtime)
        finally:
            await database.dispose()

    asyncio.run(work())


@pytest.fixture
def measured(live_server: LiveServer) -> str:
    """The identity of a finished experiment of that service."""

    async def work() -> str:
        settings = live_server.settings
        database = Database(settings.database_url.get_secret_value())
        try:
            return await measure(database, settings.artifact_root)
        finally:
            await database.dispose()

    return asyncio.run(work())


def test_the_report_says_expired_and_names_the_pin(verdraft: Verdraft, live_server: LiveServer, measured: str) -> None:
    url = ("--url", live_server.url)
    _published(live_server.settings, make_manifest().runtime)
    assert "EXPIRED" not in verdraft("report", measured, *url).stdout
    _published(live_server.settings, UPGRADED)
    shown = verdraft("report", measured, *url)
    assert "EXPIRED, held against host worker-1: engine was vllm" in shown.stdout
    assert f"is {UPGRADED}" in shown.stdout
    assert json.loads(verdraft("report", measured, "--json", *url).stdout)["expiry"]["standing"] == "EXPIRED"
    assert "EXPIRED" in verdraft("report", measured, "--markdown", *url).stdout


@contextmanager
def serving(report: Report) -> Generator[str]:
    """An address that answers everything with that report."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(report.model_dump_json().encode())

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            del code, size

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_the_gate_does_not_pass_on_what_has_expired(verdraft: Verdraft) -> None:
    good = build_report(make_evidence(Dials(speedup={"low": 1.3, "high": 1.3})))
    gone = against_experiment(good.manifest, make_evidence_manifest(runtime=UPGRADED), "1", "1")
    for report, code in ((good, 0), (good.model_copy(update={"expiry": gone}), GateExit.NOT_MET)):
        with serving(report) as url:
            assert verdraft("gate", "f" * 64, "--url", url).exit_code == code


def test_the_report_can_be_held_against_an_experiment(
    verdraft: Verdraft, live_server: LiveServer, measured: str
) -> None:
    url = ("--url", live_server.url)
    _published(live_server.settings, UPGRADED)
    against_itself = verdraft("report", measured, "--against", measured, *url)
    assert against_itself.exit_code == 0
    assert "EXPIRED" not in against_itself.stdout
