"""Every figure as a browser draws it: table, files, in the dark, on a phone, by keyboard; names are never markup."""

import csv
import io
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from app.figures import FIGURES, View
from tests.browser.conftest import Teller
from tests.browser.story import Story
from tests.conftest import LiveServer
from tests.test_figures import HOSTILE, renamed, rich_report

NARROW_PX = 360
SILENT = {"foretold_speedup", "draft_cost"}
"""Of what the story's engine does not tell."""
BEYOND = """figure => {
  const edge = figure.getBoundingClientRect();
  return [...figure.querySelectorAll(".plot text")]
    .map((text) => [text.textContent, text.getBoundingClientRect()])
    .filter(([words, box]) => words && box.width && (box.right > edge.right || box.left < edge.left))
    .map(([words]) => words);
}"""
STORY = Story(blocks=2, planned=2, requests=12)


def compared(page: Page, told: Teller, query: str = "") -> list[Locator]:
    """The figures of a story's comparison, each drawn."""
    page.goto(f"/experiments/{told(STORY).digest[:12]}/compare{query}")
    expect(page.locator("#figures figure")).to_have_count(len(FIGURES) - len(SILENT))
    return [drawn(figure) for figure in page.locator("#figures figure").all()]


def drawn(figure: Locator) -> Locator:
    """The figure, once it is there."""
    figure.scroll_into_view_if_needed()
    figure.locator(".main-svg").first.wait_for()
    return figure


@pytest.mark.browser
def test_every_figure_has_its_name_words_table_and_csv_and_is_drawn_again_in_the_dark(page: Page, told: Teller) -> None:
    page.emulate_media(color_scheme="light")
    for figure in compared(page, told):
        words = figure.locator(".plot .xtick text, .plot .ytick text").first
        light = words.evaluate("e => getComputedStyle(e).fill")
        page.emulate_media(color_scheme="dark")
        expect(words).not_to_have_css("fill", light)
        page.emulate_media(color_scheme="light")
        title = figure.locator("h3").inner_text()
        expect(figure.locator(".plot")).to_have_attribute("role", "img")
        assert title in str(figure.locator(".plot").get_attribute("aria-label"))
        assert figure.locator("figcaption p").inner_text().endswith(".")
        with page.expect_download() as download:
            figure.get_by_role("link", name="CSV").click()
        header, *rows = csv.reader(io.StringIO(Path(download.value.path()).read_text(), newline=""))
        figure.locator("summary").click()
        assert figure.locator("thead th").all_inner_texts() == header
        assert figure.locator("tbody tr").count() == min(len(rows), 120)
        firsts = figure.locator("tbody tr td:first-child").all_inner_texts()
        assert firsts == [row[0] for row in rows[:120]]
        if len(rows) > 120:
            expect(figure.locator("details")).to_contain_text("the CSV has all of them")


@pytest.mark.browser
def test_a_figure_is_walked_by_keyboard_and_saved_as_a_picture_under_its_title(page: Page, told: Teller) -> None:
    figure = compared(page, told)[0]
    figure.locator(".plot").focus()
    page.keyboard.press("ArrowRight")
    said = figure.locator("[data-said]")
    expect(said).to_contain_text("ngram-k4, tasks · low, 4 requests/s: ")
    first = said.inner_text()
    page.keyboard.press("ArrowRight")
    expect(said).not_to_have_text(first)
    page.keyboard.press("ArrowLeft")
    expect(said).to_have_text(first)
    with page.expect_download() as download:
        figure.get_by_role("button", name="PNG").click()
    assert download.value.suggested_filename == "speedup_by_condition.png"
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")
    with page.expect_download() as download:
        figure.get_by_role("button", name="SVG").click()
    picture = Path(download.value.path()).read_text()
    assert "Speed-up by workload and load" in picture
    assert "ngram-k4" in picture
    expect(figure.get_by_text("Saved.")).to_be_visible()


@pytest.mark.browser
def test_figures_follow_the_filters_and_the_address(page: Page, told: Teller) -> None:
    compared(page, told)
    page.locator("#filter-workload").select_option("tasks")
    blocks = page.locator("#figure-paired_blocks")
    expect(blocks.locator(".plot")).to_have_attribute("data-figure", re.compile(r"\?workload=tasks$"))
    drawn(blocks)
    expect(blocks.locator(".plot")).not_to_contain_text("open ·")
    again = page.url
    page.goto(again)
    assert "workload=tasks" in again
    expect(drawn(page.locator("#figure-paired_blocks")).locator(".plot")).not_to_contain_text("open ·")
    assert "?workload=tasks" in str(
        page.locator("#figure-paired_blocks").get_by_role("link", name="CSV").get_attribute("href")
    )


@pytest.mark.browser
def test_on_a_phone_panels_are_stacked_and_nothing_runs_over(page: Page, told: Teller) -> None:
    page.set_viewport_size({"width": NARROW_PX, "height": 800})
    for figure in compared(page, told):
        box = figure.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= NARROW_PX
        assert figure.evaluate(BEYOND) == []
        lefts = figure.locator(".plot .bglayer rect, .plot .xy rect.bg").evaluate_all(
            "all => all.map((e) => e.x.baseVal.value)"
        )
        assert len(set(lefts)) <= 1


@pytest.mark.browser
def test_names_are_never_markup(page: Page, told: Teller) -> None:
    report = renamed(rich_report())
    made = {name: str(draw(report, View()).draw().to_json()) for name, draw in FIGURES.items()}

    def serve(route: Route) -> None:
        name = route.request.url.rpartition("/")[2]
        route.fulfill(body=made[name], content_type="application/json")

    page.route("**/figures/*", serve)
    seen = 0
    for figure in compared(page, told):
        assert figure.locator(".plot a, .plot b, .plot script").count() == 0
        assert figure.locator(".plot [style*='font-weight: bold']").count() == 0
        seen += HOSTILE in figure.locator(".plot").inner_text()
    assert seen


@pytest.mark.browser
def test_without_scripts_there_are_the_numbers_and_the_csv(
    browser: Browser, live_server: LiveServer, told: Teller
) -> None:
    context = browser.new_context(base_url=live_server.url, java_script_enabled=False)
    page = context.new_page()
    page.goto(f"/experiments/{told(STORY).digest[:12]}/compare")
    figure = page.locator("#figure-speedup_by_condition")
    figure.locator("summary").click()
    expect(figure.locator("tbody tr").first).to_be_visible()
    expect(figure.get_by_role("button")).to_have_count(0)
    answer = context.request.get(str(figure.get_by_role("link", name="CSV").get_attribute("href")))
    assert answer.text().startswith("arm,")
    context.close()
