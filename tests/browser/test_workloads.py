"""Workloads in the browser: a file is looked at, then stored, then read on its own page."""

import http.client
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.browser.conftest import Teller
from tests.browser.story import Story
from tests.conftest import LiveServer
from tests.workloads.importing import FIXTURES

pytestmark = pytest.mark.browser

PROMPTS = b"".join(b'{"prompt": "<b>Say</b> %d again", "output_tokens": 7}\n' % i for i in range(60))


def payload(content: bytes, name: str = "prompts.jsonl") -> FilePayload:
    return {"name": name, "mimeType": "application/jsonl", "buffer": content}


def test_a_file_is_looked_at_then_stored_then_shown(page: Page) -> None:
    page.goto("/workloads/new")
    page.get_by_label("File").set_input_files(payload(PROMPTS))
    page.get_by_label("Loads").fill("low=2x40")
    page.get_by_label("Tokenizer").select_option("tiny-target")
    page.get_by_role("button", name="Preview").click()
    outcome = page.locator("#outcome")
    expect(outcome.get_by_role("heading", name="What it would become")).to_be_visible()
    expect(outcome).to_contain_text("60 rows read = 60 kept + 0 left out")
    expect(outcome).to_contain_text("<b>Say</b>")  # as text
    expect(outcome.get_by_role("img", name="Arrivals of low")).to_be_visible()
    page.goto("/workloads")
    expect(page.get_by_role("link", name="prompts")).to_have_count(0)

    page.goto("/workloads/new")
    page.get_by_label("File").set_input_files(payload(PROMPTS))
    page.get_by_label("Loads").fill("low=2x40")
    page.get_by_role("button", name="Store").click()
    expect(page.get_by_role("heading", name="prompts", exact=True)).to_be_visible()
    expect(page.get_by_text("unlabelled")).to_be_visible()
    page.goto("/experiments/new")
    expect(page.get_by_label("prompts")).to_be_visible()


def test_a_real_trace_of_lengths_is_labelled_content_invalid(page: Page) -> None:
    page.goto("/workloads/new")
    page.get_by_label("File").set_input_files(FIXTURES / "azure_llm_conv_3000.csv")
    page.get_by_role("button", name="Store").click()
    expect(page.get_by_text("placeholders")).to_be_visible()
    expect(page.get_by_text("The prompts are not real text")).to_be_visible()
    expect(page.get_by_text("3,000", exact=False).first).to_be_visible()


def test_bad_rows_are_named_and_nothing_typed_is_lost(page: Page) -> None:
    page.goto("/workloads/new")
    page.get_by_label("File").set_input_files(payload(PROMPTS + b'{"prompt": 7}\n'))
    page.get_by_label("Loads").fill("low=1")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("alert")).to_contain_text("line 61")
    expect(page.get_by_label("Loads")).to_have_value("low=1")
    page.get_by_label("A row that cannot be kept").select_option("skip")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#outcome")).to_contain_text("60 kept + 1 left out")


def test_what_is_no_workload_says_so(page: Page, tmp_path: Path) -> None:
    odd = tmp_path / "odd.bin"
    odd.write_bytes(bytes(range(256)))
    page.goto("/workloads/new")
    page.get_by_label("File").set_input_files(odd)
    page.get_by_role("button", name="Store").click()
    expect(page.get_by_role("alert")).to_contain_text("Not stored.")


def test_the_traces_of_an_experiment_are_listed_and_linked(page: Page, told: Teller) -> None:
    manifest = told(Story(blocks=0))
    page.goto("/workloads")
    page.get_by_role("link", name=manifest.workloads[0].name).first.click()
    expect(page.get_by_text(manifest.workloads[0].trace)).to_be_visible()


@pytest.mark.parametrize("path", ["/workloads/new", "/workloads/new/preview"])
def test_a_file_from_another_site_is_refused(live_server: LiveServer, path: str) -> None:
    files = {"file": ("a.jsonl", PROMPTS)}
    answer = httpx.post(live_server.url + path, data={"form_token": "x"}, files=files)
    assert answer.status_code == 403


@pytest.mark.parametrize("path", ["/workloads/new", "/workloads/new/preview"])
def test_a_file_beyond_the_limit_is_refused_before_it_is_read(live_server: LiveServer, path: str) -> None:
    connection = http.client.HTTPConnection(urlsplit(live_server.url).netloc)
    connection.putrequest("POST", path)
    connection.putheader("Content-Type", "multipart/form-data; boundary=x")
    connection.putheader("Content-Length", str((64 << 20) + 1))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_an_unknown_workload_is_not_found(page: Page) -> None:
    answer = page.goto("/workloads/000000000000")
    assert answer is not None
    assert answer.status == 404
