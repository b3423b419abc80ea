"""The form: a mistake is shown beside its field and nothing typed is lost; then it submits."""

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Teller
from tests.browser.story import Story
from tests.conftest import LiveServer
from tests.factories import DRAFT

pytestmark = pytest.mark.browser


def test_a_mistake_is_shown_beside_its_field_and_then_it_submits(page: Page, told: Teller) -> None:
    told(Story(blocks=0))  # leaves its traces and capabilities to choose from
    page.goto("/experiments/new")
    page.get_by_label("Name", exact=False).first.fill("mine")
    page.locator("[name='arms[1].speculation.num_speculative_tokens']").fill("0")
    page.get_by_role("button", name="Submit", exact=True).click()
    k = page.locator("[name='arms[1].speculation.num_speculative_tokens']")
    expect(k).to_have_attribute("aria-invalid", "true")
    expect(page.locator("div.field", has=k).locator(".wrong")).to_contain_text("greater than or equal to 1")
    expect(page.locator("[name='name']")).to_have_value("mine")
    k.fill("4")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_role("heading", name="mine")).to_be_visible()
    expect(page.get_by_text("Waiting: no worker has been seen")).to_be_visible()


def test_an_added_arm_is_part_of_the_manifest(page: Page, told: Teller) -> None:
    told(Story(blocks=0))
    page.goto("/experiments/new")
    page.locator("[name='name']").fill("four-arms")
    page.get_by_role("button", name="Add an arm").click()
    page.locator("[name='arms[4].speculation.method']").select_option("draft_model")
    page.locator("[name='arms[4].speculation.num_speculative_tokens']").fill("2")
    page.locator("[name='arms[4].draft_or_speculator']").select_option(DRAFT)
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_text("draft-model-k2").first).to_be_visible()


def test_a_pasted_manifest_names_its_wrong_key(page: Page) -> None:
    page.goto("/experiments/new")
    page.get_by_label("YAML or JSON").fill("name: x\nbogus: 1\n")
    page.get_by_role("button", name="Submit the manifest").click()
    expect(page.get_by_role("alert")).to_contain_text("bogus")
    expect(page.get_by_label("YAML or JSON")).to_have_value("name: x\nbogus: 1\n")


@pytest.mark.parametrize("path", ["/experiments/new", "/experiments/000000000000/cancel"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://elsewhere.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-origin"},  # of this host, but without the token
    ],
)
def test_a_form_from_another_site_is_refused(live_server: LiveServer, path: str, headers: dict[str, str]) -> None:
    answer = httpx.post(live_server.url + path, data={"form_token": "x"}, headers=headers)
    assert answer.status_code == 403
