"""Warnings as a page shows them: once for each arm and name, failing ones first, never as markup."""

from dataclasses import dataclass

from app.domain.manifest import Manifest
from app.domain.startup import StartupWarning, WarningEffect
from app.pages.views import ENVIRONMENT
from app.pages.warned import warned
from tests.factories import make_manifest

FAILING = StartupWarning(
    name="k_defaulted", effect=WarningEffect.FAILS_PREFLIGHT, reason="the engine chose k", line="Defaulted <b>k</b>"
)
NOTICE = StartupWarning(name="a_notice", effect=WarningEffect.NOTICE, reason="worth knowing", line="by the way")


@dataclass(frozen=True)
class Session:
    block: int
    arm: str
    warnings: tuple[StartupWarning, ...]


def rendered(sessions: list[Session], manifest: Manifest) -> str:
    template = ENVIRONMENT.get_template("_warned.html")
    return template.render(warned=warned(sessions), shown_of=manifest)


def test_a_warning_is_shown_once_with_its_blocks() -> None:
    groups = warned([Session(block, "ngram-k4", (NOTICE, FAILING)) for block in (2, 0, 1)])
    assert [(g.name, g.fails, g.blocks) for g in groups] == [
        ("k_defaulted", True, (1, 2, 3)),
        ("a_notice", False, (1, 2, 3)),
    ]


def test_the_same_warning_of_two_arms_is_two_lines() -> None:
    groups = warned([Session(0, "ngram-k4", (NOTICE,)), Session(0, "target-only", (NOTICE,))])
    assert [g.arm for g in groups] == ["ngram-k4", "target-only"]


def test_a_failing_warning_says_what_follows_and_stays_text() -> None:
    page = rendered([Session(0, "ngram-k4", (FAILING,))], make_manifest())
    assert "fails preflight" in page
    assert "INVALID" in page
    assert "Defaulted &lt;b&gt;k&lt;/b&gt;" in page
    assert "<b>k</b>" not in page


def test_notices_alone_raise_no_alarm() -> None:
    page = rendered([Session(0, "ngram-k4", (NOTICE,))], make_manifest())
    assert "1 notice of the engines" in page
    assert "INVALID" not in page


def test_nothing_is_shown_of_engines_that_warned_of_nothing() -> None:
    assert rendered([Session(0, "ngram-k4", ())], make_manifest()).strip() == ""
