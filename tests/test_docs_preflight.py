"""The page of preflight lists every check, in order, with its field and what it asks, in the code's own words."""

import inspect
import re
from pathlib import Path

from app.domain.preflight import ARM_RULES, RULES, SIZE, TRACES, PreflightOutcome
from app.domain.preflight.case import ArmRule, Rule

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "preflight.md").read_text()


def row(rule: Rule | ArmRule) -> tuple[str, str, str]:
    field = rule.field if isinstance(rule, Rule) else rule.part
    return rule.name, field, (inspect.getdoc(rule.judge) or "").split("\n\n")[0].replace("\n", " ")


def test_every_check_has_its_row_and_no_other_has_one() -> None:
    written = re.findall(r"^\| ([\w ]+) \| `([\w.\[\]]+)` \| (.+?) \| .+ \|$", PAGE, re.MULTILINE)
    of_service = [r for r in written if r[0] in {TRACES, SIZE}]
    assert [r for r in written if r not in of_service] == [row(rule) for rule in (*RULES, *ARM_RULES)]
    assert len(of_service) == 2


def test_every_outcome_is_explained() -> None:
    assert all(f"| `{outcome}` |" in PAGE for outcome in PreflightOutcome)
