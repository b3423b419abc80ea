"""The form: two sides of one manifest in step, a mistake beside its field, drafts that survive, clones."""

import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import Teller
from tests.browser.story import Story
from tests.conftest import LiveServer
from tests.factories import DRAFT

pytestmark = pytest.mark.browser

K = "[name='arms[1].speculation.num_speculative_tokens']"
METHOD = "[name='arms[1].speculation.method']"
OTHER_ROW = "arms[2]"


def yaml(page: Page) -> Locator:
    return page.get_by_label("YAML or JSON")


def opened(page: Page, address: str = "/experiments/new") -> None:
    """The form, once its script has heard from the service."""
    page.goto(address)
    expect(page.locator("#look")).to_have_attribute("aria-busy", "false")
    expect(page.locator("#announcement")).to_contain_text("correct")


def test_a_mistake_is_shown_beside_its_field_and_then_it_submits(page: Page, told: Teller) -> None:
    told(Story(blocks=0))  # leaves its traces and capabilities to choose from
    opened(page)
    page.get_by_label("Name", exact=False).first.fill("mine")
    page.locator(K).fill("0")
    page.get_by_role("button", name="Submit", exact=True).click()
    summary = page.get_by_role("alert")
    expect(summary).to_be_focused()
    expect(summary).to_contain_text("Not submitted")
    k = page.locator(K)
    expect(k).to_have_attribute("aria-invalid", "true")
    expect(k).to_have_attribute("aria-describedby", re.compile(r"^wrong-arms\[1\]"))
    expect(page.locator("div.field", has=k).locator(".wrong")).to_contain_text("greater than or equal to 1")
    expect(page.locator("[name='name']")).to_have_value("mine")
    summary.get_by_role("link").first.click()
    expect(k).to_be_focused()
    k.fill("4")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_role("heading", name="mine")).to_be_visible()
    expect(page.get_by_text("Waiting: no worker has been seen")).to_be_visible()


def test_an_added_arm_is_part_of_the_manifest(page: Page, told: Teller) -> None:
    told(Story(blocks=0))
    opened(page)
    page.locator("[name='name']").fill("four-arms")
    page.get_by_role("button", name="Add an arm").click()
    row = page.locator(".arm-row").last.get_attribute("data-row")
    page.locator(f"[name='arms[{row}].speculation.method']").select_option("draft_model")
    page.locator(f"[name='arms[{row}].speculation.num_speculative_tokens']").fill("2")
    page.locator(f"[name='arms[{row}].draft_or_speculator']").select_option(DRAFT)
    expect(yaml(page)).to_have_value(re.compile("draft-model-k2"))
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_text("draft-model-k2").first).to_be_visible()


def test_the_yaml_follows_the_form_and_the_form_the_yaml(page: Page, told: Teller) -> None:
    told(Story(blocks=0))
    opened(page)
    page.locator("[name='name']").fill("both")
    page.locator(K).fill("2, 8")
    expect(yaml(page)).to_have_value(re.compile(r"name: both\n"))
    expect(yaml(page)).to_have_value(re.compile(r"num_speculative_tokens: \[2, 8\]"))
    text = yaml(page).input_value().replace("name: both", "name: changed").replace("[2, 8]", "[3, 5]")
    yaml(page).fill(f"# mine\n{text}family:\n  comparisons: [ngram-k3]\n")
    expect(page.locator("[name='name']")).to_have_value("changed")
    expect(page.locator(K)).to_have_value("3, 5")
    expect(page.locator("#kept")).to_contain_text("family")
    expect(yaml(page)).to_have_value(re.compile("^# mine"))
    page.locator("[name='blocks']").fill("6")
    expect(yaml(page)).to_have_value(re.compile(r"blocks: 6\n"))
    expect(yaml(page)).to_have_value(re.compile(r"comparisons: \[ngram-k3\]"))
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_role("heading", name="changed")).to_be_visible()
    expect(page.get_by_text("ngram-k5").first).to_be_visible()


def test_a_yaml_that_the_form_cannot_show_says_so_and_stays(page: Page, told: Teller) -> None:
    told(Story(blocks=0))
    opened(page)
    yaml(page).fill("arms: none of them\n")
    expect(page.locator("#unshown")).to_contain_text("The form cannot show this YAML")
    expect(page.locator("[name='name']")).to_be_disabled()
    expect(yaml(page)).to_have_value("arms: none of them\n")
    yaml(page).fill("name: fine\n")
    expect(page.locator("[name='name']")).to_be_enabled()
    expect(page.locator("[name='name']")).to_have_value("fine")
    expect(page.locator("#unshown")).to_be_empty()


def test_a_method_has_only_its_own_keys(page: Page, told: Teller) -> None:
    told(Story(blocks=0))
    opened(page)
    row = page.locator(".arm-row").first
    row.locator("summary").click()
    expect(row.get_by_label("prompt_lookup_max")).to_be_visible()
    expect(row.get_by_label("suffix_decoding_max_tree_depth")).to_have_count(0)
    row.get_by_label("prompt_lookup_max").fill("5")
    expect(yaml(page)).to_have_value(re.compile("prompt_lookup_max: 5"))
    page.locator(METHOD).select_option("suffix")
    expect(row.get_by_label("prompt_lookup_max")).to_have_count(0)
    expect(row.get_by_label("suffix_decoding_max_tree_depth")).to_be_visible()
    expect(yaml(page)).not_to_have_value(re.compile("prompt_lookup_max"))


def test_what_it_costs_and_shows_follows_what_is_typed(page: Page, told: Teller) -> None:
    told(Story(blocks=0))
    opened(page)
    page.locator("[name='name']").fill("priced")
    look = page.locator("#look")
    expect(look.get_by_role("heading", name="What 5 blocks can show")).to_be_visible()
    expect(look).to_contain_text("10 servers")
    page.locator("[name='blocks']").fill("20")
    expect(look.get_by_role("heading", name="What 20 blocks can show")).to_be_visible()
    expect(look).to_contain_text("40 servers")


HOLD_THE_FIRST = """() => {
    const real = window.fetch;
    let first = true;
    window.fetch = async (at, how) => {
        const answer = await real(at, { ...how, signal: undefined });
        if (!first) return answer;
        first = false;
        const read = answer.json.bind(answer);
        answer.json = async () => { const told = await read(); setTimeout(() => (window.seen = true)); return told; };
        await new Promise((done) => (window.release = done));
        return answer;
    };
}"""
"""The first answer is held back until the test lets it go, however the page tries to be rid of it."""


def test_an_older_answer_never_takes_the_place_of_a_newer_one(page: Page, told: Teller) -> None:
    told(Story(blocks=0))
    opened(page)
    page.evaluate(HOLD_THE_FIRST)
    page.locator("[name='name']").fill("older")
    page.wait_for_function("() => window.release !== undefined")
    page.locator("[name='name']").fill("newer")
    expect(yaml(page)).to_have_value(re.compile("name: newer"))
    page.evaluate("() => window.release()")
    page.wait_for_function("() => window.seen")
    expect(yaml(page)).to_have_value(re.compile("name: newer"))


def test_a_draft_is_restored_after_a_reload_until_it_is_discarded(page: Page, told: Teller) -> None:
    told(Story(blocks=0))
    opened(page)
    page.locator("[name='name']").fill("half-done")
    page.locator(METHOD).select_option("suffix")
    page.reload()
    expect(page.locator("#restored")).to_contain_text("was restored")
    expect(page.locator("[name='name']")).to_have_value("half-done")
    expect(page.locator(METHOD)).to_have_value("suffix")
    expect(yaml(page)).to_have_value(re.compile("name: half-done"))
    page.get_by_role("button", name="Discard it").click()
    expect(page.locator("[name='name']")).to_have_value("")
    expect(page.locator("#restored")).to_have_count(0)


def test_a_draft_of_yaml_is_restored_as_it_was(page: Page, told: Teller) -> None:
    told(Story(blocks=0))
    opened(page)
    yaml(page).fill("# a note\nname: in-text\narms: nothing\n")
    page.reload()
    expect(page.locator("#restored")).to_be_visible()
    expect(yaml(page)).to_have_value("# a note\nname: in-text\narms: nothing\n")
    expect(page.locator("#unshown")).to_contain_text("arms")


def test_two_tabs_keep_their_own_drafts_and_a_later_one_finds_what_was_left(page: Page, told: Teller) -> None:
    told(Story(blocks=0))
    opened(page)
    page.locator("[name='name']").fill("first-tab")
    other = page.context.new_page()
    opened(other)
    expect(other.locator("[name='name']")).to_have_value("")
    expect(other.locator("#others")).to_have_count(0)  # it is open, so it is not offered
    other.locator("[name='name']").fill("second-tab")
    page.reload()
    expect(page.locator("[name='name']")).to_have_value("first-tab")
    other.close()
    third = page.context.new_page()
    opened(third)
    line = third.locator("#others li")
    expect(line).to_have_count(1)
    expect(line).to_contain_text("second-tab")
    line.get_by_role("button", name="Continue").click()
    expect(third.locator("[name='name']")).to_have_value("second-tab")
    third.close()


def test_a_submitted_draft_is_gone(page: Page, told: Teller) -> None:
    told(Story(blocks=0))
    opened(page)
    page.locator("[name='name']").fill("sent")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_role("heading", name="sent")).to_be_visible()
    opened(page)
    expect(page.locator("[name='name']")).to_have_value("")
    expect(page.locator("#others")).to_have_count(0)


def test_a_clone_has_another_name_and_the_same_again_is_told(page: Page, told: Teller) -> None:
    manifest = told(Story(blocks=0, name="original"))
    page.goto(f"/experiments/{manifest.digest[:12]}")
    page.get_by_role("link", name="Clone and edit").click()
    expect(page.locator("#clone")).to_contain_text("original")
    expect(page.locator("[name='name']")).to_have_value("original-2")
    page.locator("[name='name']").fill("original")
    expect(page.locator("#look")).to_contain_text("This very manifest was submitted before")
    page.locator("[name='name']").fill("variant")
    expect(page.locator("#look")).not_to_contain_text("submitted before")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_role("heading", name="variant")).to_be_visible()
    expect(page.get_by_text("draft-k4").first).to_be_visible()


def test_a_clone_is_planned_with_the_noise_that_was_measured_and_no_guess_stands_beside_it(
    page: Page, told: Teller
) -> None:
    manifest = told(Story(blocks=5, name="measured"))
    page.goto(f"/experiments/new?from={manifest.digest[:12]}")
    look = page.locator("#look")
    expect(look).to_contain_text("in the noisiest condition, by the noise that was measured")
    expect(look).not_to_contain_text("an assumption")
    expect(page.locator("#price")).not_to_contain_text("noise assumed")


def test_a_pasted_manifest_names_its_wrong_key(page: Page) -> None:
    opened(page)
    yaml(page).fill("name: x\nbogus: 1\n")
    page.get_by_role("button", name="Submit the YAML").click()
    expect(page.get_by_role("alert")).to_contain_text("bogus")
    expect(yaml(page)).to_have_value("name: x\nbogus: 1\n")


def test_a_draft_that_holds_markup_shows_it_as_text(page: Page, told: Teller) -> None:
    told(Story(blocks=0))
    opened(page)
    page.locator("[name='name']").fill("<img src=x onerror=alert(1)>")
    expect(page.locator("#look")).to_contain_text("name")
    page.reload()
    expect(page.locator("[name='name']")).to_have_value("<img src=x onerror=alert(1)>")
    expect(page.locator("main img")).to_have_count(0)


@pytest.fixture
def plain(browser: Browser, live_server: LiveServer) -> Iterator[Page]:
    """A page of a browser without scripts."""
    context = browser.new_context(base_url=live_server.url, java_script_enabled=False)
    yield context.new_page()
    context.close()


def test_without_scripts_either_side_submits(plain: Page, told: Teller) -> None:
    told(Story(blocks=0))
    plain.goto("/experiments/new")
    text = yaml(plain).input_value()
    yaml(plain).fill(f"name: as-text\n{text}")
    plain.get_by_role("button", name="Submit the YAML").click()
    expect(plain.get_by_role("heading", name="as-text")).to_be_visible()
    plain.goto("/experiments/new")
    plain.locator("[name='name']").fill("as-form")
    plain.locator(K).fill("0")
    plain.get_by_role("button", name="Submit", exact=True).click()
    expect(plain.get_by_role("alert")).to_contain_text("Not submitted")
    plain.locator(K).fill("2, 4")
    plain.get_by_role("button", name="Submit", exact=True).click()
    expect(plain.get_by_role("heading", name="as-form")).to_be_visible()
    expect(plain.get_by_text("ngram-k2").first).to_be_visible()


@pytest.mark.parametrize(
    "path",
    [
        "/experiments/new",
        "/experiments/new/live",
        "/experiments/000000000000/cancel",
        "/experiments/000000000000/shelf",
    ],
)
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
