"""The configuration as the log states it, for servers that cannot be asked: ``key`` → value, nested keys dotted.

The engine writes its arguments ("non-default args: {…}") and, once it knows them, its settings ("Initializing a …
engine (…) with config: …"), both as Python prints them. Nothing is evaluated.
"""

import re
from collections.abc import Iterator

from worker.engine.log_lines import lines, redact

ARGUMENTS = "args"
"""Prefix of what was given on the command line, apart from what was resolved."""

_SETTINGS = re.compile(r"Initializing a .* engine \(.*?\) with config: (.*)$")
_GIVEN = re.compile(r"non-default args: (\{.*\})$")
_PAIR = re.compile(r"(?s)^\s*(?:'([^']*)'\s*:|([A-Za-z_]\w*)\s*=)\s*(.*?)\s*$")
_NESTED = re.compile(r"(?s)^(?:[A-Za-z_][\w.]*\((.*)\)|\{(.*)\})$")
_OPENING, _CLOSING, _QUOTES = "([{", ")]}", "'\""


RUNNER = "engine.model_runner"


def model_runner(text: str) -> str:
    """Which of vLLM's model runners the worker took; only the second one is announced."""
    return "V2" if "Using V2 Model Runner" in text else "V1"


def logged_config(text: str) -> dict[str, str]:
    """What the log says of the configuration, secrets redacted; empty where it ended before either line."""
    found: dict[str, str] = {}
    for line in lines(text):
        if given := _GIVEN.search(line):
            found |= {f"{ARGUMENTS}.{key}": value for key, value in _flatten(given[1][1:-1], "")}
        elif settings := _SETTINGS.search(line):
            found |= dict(_flatten(settings[1], ""))
    return {key: redact(value) for key, value in found.items()}


def _flatten(body: str, prefix: str) -> Iterator[tuple[str, str]]:
    """The pairs of a comma-separated body; what is no pair at all is left out with its neighbours' meaning intact."""
    for part in _split(body):
        pair = _PAIR.match(part)
        if pair is None:
            continue
        key, value = f"{prefix}{pair[1] or pair[2]}", pair[3]
        nested = _NESTED.match(value)
        inner = (nested[1] or nested[2] or "") if nested else ""
        if inner and all(map(_PAIR.match, _split(inner))):
            yield from _flatten(inner, f"{key}.")
        else:
            yield key, value[1:-1] if value[:1] in _QUOTES and value[-1:] == value[:1] else value


def _split(body: str) -> list[str]:
    """The parts between the commas that stand in no bracket and no quotation."""
    parts, start, depth, quote = list[str](), 0, 0, ""
    for index, character in enumerate(body):
        if quote:
            quote = "" if character == quote and body[index - 1] != "\\" else quote
        elif character in _QUOTES:
            quote = character
        elif character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(body[start:index])
            start = index + 1
    return [part for part in (*parts, body[start:]) if part.strip()]
