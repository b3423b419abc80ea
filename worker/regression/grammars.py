"""Structured output: valid with a draft that wants to leave the grammar, and valid as often as target-only's."""

import json
import re
from collections.abc import Callable
from typing import Any

import jsonschema

from worker.regression.answers import Choice
from worker.regression.bench import Bench, greedy, needs
from worker.regression.case import Case
from worker.regression.verdicts import Broken

TOKENS = 80
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"enum": ["alpha", "beta", "gamma"]},
        "count": {"type": "integer", "minimum": 0, "maximum": 99},
        "tags": {"type": "array", "items": {"enum": ["x", "y"]}, "minItems": 2, "maxItems": 3},
    },
    "required": ["name", "count", "tags"],
    "additionalProperties": False,
}
REGEX = r"[a-f]{3}-[0-9]{4}-(left|right)"
CHOICES = ["the first choice of all", "the second choice of all", "another"]
GRAMMAR = 'root ::= item (", " item){3}\nitem ::= "red" | "green" | "blue"\n'
GRAMMAR_FORM = r"(red|green|blue)(, (red|green|blue)){3}"
HOSTILE = r"(abcd ){5}end"
HOSTILE_PROMPT = "abcd efgh ijkl abcd efgh ijkl abcd efgh ijkl abcd efgh ijkl "
"""What follows ``abcd`` in it is what a lookup drafts, and what the grammar forbids."""
PROMPT = (
    'Answer: {"name": "alpha", "count": 7, "tags": ["x", "y"]}\nred, green, abc-1234-left, the first choice\nAnswer: '
)

Valid = Callable[[str], bool]


def is_of_schema(text: str) -> bool:
    """Whether the text is JSON of ``SCHEMA``."""
    try:
        jsonschema.validate(json.loads(text), SCHEMA)
    except (ValueError, jsonschema.ValidationError):
        return False
    return True


async def json_schema(bench: Bench) -> None:
    await _constrained(bench, PROMPT, {"json": SCHEMA}, is_of_schema)


async def regex(bench: Bench) -> None:
    await _constrained(bench, PROMPT, {"regex": REGEX}, _matching(REGEX))


async def choice(bench: Bench) -> None:
    await _constrained(bench, PROMPT, {"choice": CHOICES}, CHOICES.__contains__)


async def grammar(bench: Bench) -> None:
    await _constrained(bench, PROMPT, {"grammar": GRAMMAR}, _matching(GRAMMAR_FORM))


async def hostile_draft(bench: Bench) -> None:
    await _constrained(bench, HOSTILE_PROMPT, {"regex": HOSTILE}, _matching(HOSTILE))


async def drawn(bench: Bench) -> None:
    """Sampled answers are valid too; they are not compared token by token."""
    for seed in (1, 2, 3):
        body = greedy(PROMPT, TOKENS, structured_outputs={"regex": REGEX}) | {"temperature": 1.0, "seed": seed}
        _is_valid((await bench.ask(body)).only, _matching(REGEX))


async def _constrained(bench: Bench, prompt: str, constraint: dict[str, Any], valid: Valid) -> None:
    """Greedy answers are valid where they are finished, and target-only's."""
    body = greedy(prompt, TOKENS, structured_outputs=constraint)
    expected = (await bench.reference(body)).only
    found = (await bench.ask(body)).only
    if found.finish_reason == "stop":
        _is_valid(found, valid)
    await bench.both(body)
    needs(expected.finish_reason == "stop", "target-only's answer is not finished, so that its form cannot be judged")


def _is_valid(found: Choice, valid: Valid) -> None:
    if not valid(found.text):
        raise Broken("the form of the answer", expected="an answer that the constraint allows", found=found)


def _matching(pattern: str) -> Valid:
    return lambda text: re.fullmatch(pattern, text) is not None


CASES = (
    Case("json-schema", "each drafted token has to be held to the grammar's state at its own position", json_schema),
    Case("regex", "the same for a regular expression", regex),
    Case("choice", "the same for a list of choices", choice),
    Case("grammar", "the same for a context-free grammar", grammar),
    Case("hostile-draft", "a draft that leaves the grammar is rejected there, and the state goes back", hostile_draft),
    Case("structured-drawn", "sampling under a grammar resamples rejected tokens under it", drawn),
)  # fmt: skip
