"""The right answer of a synthetic task, worked out from its instruction alone and not as the generator does."""

import json
import re
from collections.abc import Callable
from typing import Any

from app.synthetic.families import Family
from app.synthetic.language import Language
from app.synthetic.task import Task

_WORD = "[^。，,.]{1,40}?"  # noqa: RUF001  (Chinese punctuation)
_QUOTED = re.compile('["„“«]([^"„“”«»]+)["“”»]')


def is_right(family: Family, texts: Language, task: Task, answer: str) -> bool:
    wanted, _, source = task.instruction.partition("\n")
    checks: dict[Family, Callable[[], bool]] = {
        Family.COPY: lambda: answer == source,
        Family.EDIT: lambda: _is_edited(wanted, source, answer),
        Family.EXTRACT: lambda: _is_extracted(wanted, source, answer),
        Family.TRANSFORM: lambda: _is_transformed(texts, wanted, source, answer),
        Family.ARITHMETIC: lambda: answer == str(_computed(texts, task.instruction)),
        Family.CODE: lambda: passes(answer, task.tests or "raise AssertionError"),
        Family.QA: lambda: _is_told(texts, source, answer),
    }
    try:
        return checks[family]()
    except ValueError:  # not even of the answer's form
        return False


def passes(code: str, tests: str) -> bool:
    """Whether generated code passes its own assertions."""
    try:
        exec(f"{code}\n{tests}", {})  # noqa: S102  (our own generator's code)
    except Exception:  # noqa: BLE001  (whatever wrong code does)
        return False
    return True


def _is_edited(wanted: str, source: str, answer: str) -> bool:
    first, second = _QUOTED.findall(wanted)[:2]
    old, new = (first, second) if first in source else (second, first)
    return old in source and answer == new.join(source.split(old))


def _is_extracted(wanted: str, source: str, answer: str) -> bool:
    found: dict[str, Any] = json.loads(answer)
    places = [wanted.find(key) for key in found]
    return (
        bool(found) and -1 not in places and places == sorted(places) and all(str(v) in source for v in found.values())
    )


def _is_transformed(texts: Language, wanted: str, source: str, answer: str) -> bool:
    lines = source.split("\n")
    if wanted in texts.sections["number_lines"]:
        return [line.split(". ", 1) for line in answer.split("\n")] == [[str(i), x] for i, x in enumerate(lines, 1)]
    if wanted in texts.sections["reverse_lines"]:
        return answer.split("\n")[::-1] == lines
    columns, *cells = (line.split(",") for line in lines)
    found: list[dict[str, str]] = json.loads(answer)
    return [list(row.items()) for row in found] == [list(zip(columns, row, strict=True)) for row in cells] != []


def _computed(texts: Language, instruction: str) -> int:
    """By matching the wordings and evaluating the formula beside them."""
    for formula, template in texts.pairs("arithmetic", "|"):
        parts = re.split(r"\{(\w+)\}", template)
        pattern = "".join(
            re.escape(part) if place % 2 == 0 else (rf"(?P<{part}>\d+)" if part in {"a", "b", "c"} else _WORD)
            for place, part in enumerate(parts)
        )
        if found := re.search(f"{pattern}$", instruction):
            return eval(formula, {name: int(value) for name, value in found.groupdict().items()})  # noqa: S307
    raise AssertionError(instruction)


def _is_told(texts: Language, source: str, answer: str) -> bool:
    facts, _, question = source.rpartition("\n")
    name = next(name for name in texts.sections["names"] if name in question)
    told = next(fact for fact in re.split(r"(?<=[.。])\s*", facts) if fact.startswith(name))
    return answer in told.removeprefix(name) and answer not in question
