"""The right answer of a demo prompt, worked out from the prompt alone and by another way than the generator's."""

import csv
import io
import json
import re
from typing import Any

USER = re.compile(r"<\|user\|>\n(.*)<\|end\|>\n<\|assistant\|>\n", re.DOTALL)


def is_right(family: str, prompt: str, answer: str) -> bool:
    matched = USER.fullmatch(prompt)
    assert matched, "the prompt is not one user turn"
    return _CHECKS[family](matched[1], answer)


def _copy(turn: str, answer: str) -> bool:
    return turn.split("\n", 1)[1] == answer


def _rename(turn: str, answer: str) -> bool:
    head, code = turn.split("\n", 1)
    old, new = re.findall(r"`(\w+)`", head)
    tokens = re.split(r"(\W+)", code)
    return old in tokens and new not in tokens and "".join(new if t == old else t for t in tokens) == answer


def _extract(turn: str, answer: str) -> bool:
    head, source = turn.split("\n", 1)
    asked = re.search(r"(?:fields|keys) (.*?) (?:as JSON|from this text)", head)
    assert asked
    found: dict[str, Any] = json.loads(answer)
    return list(found) == asked[1].split(", ") and all(_said(value) in source for value in found.values())


def _call(turn: str, answer: str) -> bool:
    head, request = turn.split("\n", 1)
    found = json.loads(answer)
    said = request.split(": ", 1)[1]
    verb, _, arguments = said.partition(" with ")
    rebuilt = ", ".join(f"{key.replace('_', ' ')} {_said(value)}" for key, value in found["arguments"].items())
    signature = f"{found['name']}({', '.join(found['arguments'])})"
    return verb == found["name"].replace("_", " ") and arguments == rebuilt and signature in head


def _table(turn: str, answer: str) -> bool:
    head, source = turn.split("\n", 1)
    forms = re.fullmatch(r"Write this (.*) as (.*):", head)
    assert forms
    return _rows(forms[1], source) == _rows(forms[2], answer) != []


def _config(turn: str, answer: str) -> bool:
    head, source = turn.split("\n", 1)
    forms = re.fullmatch(r"Convert this (.*) to (.*):", head)
    assert forms
    return _pairs(forms[1], source) == _pairs(forms[2], answer) != []


def _lines(turn: str, answer: str) -> bool:
    wanted, *source = turn.split("\n")
    found = answer.split("\n")
    seen = {
        "Write the text in upper case:": found == [line.upper() for line in source],
        "Write the text in lower case:": found == [line.lower() for line in source],
        "Number the lines:": [f.split(". ", 1) for f in found] == [[str(i + 1), line] for i, line in enumerate(source)],
        'Put "-" before each line:': [(f[:2], f[2:]) for f in found] == [("- ", line) for line in source],
        "Give the first 2 lines:": found == source[:2],
        "Join the lines with commas:": answer.split(", ") == source,
    }
    return seen[wanted]


_CHECKS = {
    "copy": _copy,
    "rename": _rename,
    "extract": _extract,
    "call": _call,
    "table": _table,
    "config": _config,
    "lines": _lines,
}


def _said(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _rows(form: str, text: str) -> list[dict[str, str]]:
    if form == "JSON":
        return [{key: _said(value) for key, value in row.items()} for row in json.loads(text)]
    if form == "CSV":
        return list(csv.DictReader(io.StringIO(text)))
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in text.split("\n"))
    return [dict(zip(head, row, strict=True)) for row in rows]


def _pairs(form: str, text: str) -> list[tuple[str, str]]:
    if form == "JSON":
        return [(key, _said(value)) for key, value in json.loads(text).items()]
    separator = "=" if form.startswith("key=value") else ": "
    return [(key, value) for key, _, value in (line.partition(separator) for line in text.split("\n"))]
