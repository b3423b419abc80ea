"""``verdraft accelerator`` and the owner of a submission, against a real service."""

import asyncio
import json
from pathlib import Path

import pytest

from app.db.session import Database
from tests.cli.conftest import Verdraft
from tests.conftest import LiveServer
from tests.factories import make_trace, manifest_document
from tests.factories_operations import busy_floor


@pytest.fixture
def url(live_server: LiveServer) -> str:
    """A service with a busy floor."""

    async def play() -> None:
        database = Database(live_server.settings.database_url.get_secret_value())
        await busy_floor(database)
        await database.dispose()

    asyncio.run(play())
    return live_server.url


def test_the_list_tells_what_a_person_must_know(verdraft: Verdraft, url: str) -> None:
    listed = verdraft("accelerator", "list", "--url", url)
    assert listed.exit_code == 0, listed.output
    lines = {line.split()[0]: line for line in listed.stdout.splitlines()}
    assert "QUARANTINED" in lines["gpu1/GPU-cccc"]
    assert "because: memory did not return to its baseline" in lines["gpu1/GPU-cccc"]
    assert "block 3" in lines["gpu1/GPU-aaaa"]
    assert "its host has been silent for 6" in lines["gpu2/GPU-dddd"]
    assert "silent" not in lines["mill/cpu-0"]
    told = json.loads(verdraft("accelerator", "list", "--json", "--url", url).stdout)
    assert [a["name"] for a in told] == ["GPU-aaaa", "GPU-bbbb", "GPU-cccc", "GPU-dddd", "cpu-0"]


def test_an_empty_list_says_so(verdraft: Verdraft, live_server: LiveServer) -> None:
    listed = verdraft("accelerator", "list", "--url", live_server.url)
    assert (listed.exit_code, listed.stdout) == (0, "no worker has published any accelerator\n")


def test_quarantine_and_release(verdraft: Verdraft, url: str) -> None:
    out = verdraft("accelerator", "quarantine", "gpu2/GPU-dddd", "--reason", "it hums", "--url", url)
    assert (out.exit_code, out.stdout) == (0, "accelerator: gpu2/GPU-dddd\nstate: QUARANTINED\n")
    assert "because: it hums" in verdraft("accelerator", "list", "--url", url).stdout
    back = verdraft("accelerator", "release", "gpu2/GPU-dddd", "--reason", "oiled", "--json", "--url", url)
    assert json.loads(back.stdout)["state"] == "FREE"


@pytest.mark.parametrize(
    ("verb", "address", "words"),
    [
        ("release", "gpu1/GPU-aaaa", "is LEASED, not in quarantine"),
        ("release", "gpu1/GPU-zzzz", "no worker has published gpu1/GPU-zzzz"),
        ("quarantine", "gpu1/GPU-cccc", "in quarantine already"),
        ("quarantine", "gpu1/MIG-a/1/0", "no worker has published gpu1/MIG-a/1/0"),
        ("quarantine", "GPU-cccc", "write it as HOST/NAME"),
        ("quarantine", "/GPU-cccc", "write it as HOST/NAME"),
    ],
)
def test_what_cannot_be_done_is_said(verdraft: Verdraft, url: str, verb: str, address: str, words: str) -> None:
    refused = verdraft("accelerator", verb, address, "--reason", "x", "--url", url)
    assert refused.exit_code == 1
    assert words in refused.stderr
    assert refused.stdout == ""


def test_a_reason_must_be_given(verdraft: Verdraft, url: str) -> None:
    assert verdraft("accelerator", "release", "gpu1/GPU-cccc", "--url", url).exit_code == 2
    blank = verdraft("accelerator", "release", "gpu1/GPU-cccc", "--reason", " ", "--url", url)
    assert (blank.exit_code, "reason" in blank.stderr) == (1, True)


def test_a_submission_has_an_owner_and_a_priority(verdraft: Verdraft, live_server: LiveServer, tmp_path: Path) -> None:
    url = ("--url", live_server.url)
    trace, manifest = tmp_path / "tasks.jsonl", tmp_path / "manifest.json"
    trace.write_bytes(make_trace().encode())
    manifest.write_text(json.dumps(manifest_document()))
    assert verdraft("workload", "upload", trace, *url).exit_code == 0
    assert verdraft("submit", manifest, "--owner", "ann", "--priority", "-4", *url).exit_code == 0
    (listed,) = json.loads(verdraft("list", "--json", *url).stdout)
    assert (listed["owner"], listed["priority"]) == ("ann", -4)
    refused = verdraft("submit", manifest, "--priority", "11", *url)
    assert (refused.exit_code, "query.priority" in refused.stderr) == (1, True)
