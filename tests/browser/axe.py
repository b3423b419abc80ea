"""axe on the page that is open, from the vendored file."""

from pathlib import Path

from playwright.sync_api import Page

VENDOR = Path(__file__).parent / "vendor"
NARROW_PX = 360


def violations(page: Page) -> list[str]:
    """Every rule that is broken, of WCAG and of good practice, with the element that breaks it."""
    (axe,) = VENDOR.glob("axe-*.js")
    page.evaluate(axe.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [f"{v['id']}: {node['html'][:160]}" for v in found["violations"] for node in v["nodes"]]
