"""From a manifest as people write it to the form that is frozen: one list of single arms, no nulls.

Read as the same manifest: a single arm at the top level (against target-only), lists within an arm, and null for
absent. Problems found later in the frozen form are told in the fields of the document that was written.
"""

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from app.domain.errors import FieldProblem, ManifestRefused
from app.domain.grid import expand_arm
from app.domain.refusals import dotted
from app.domain.serving import SAMPLING_FORM
from app.domain.vocabulary import BASELINE_ARM, Method
from app.domain.written import fields_of_line

SINGLE_ARM: Final = ("speculation", "draft_or_speculator", "provenance")
"""Keys of an arm that stand at the top level where there is only one."""
_ARM: Final = re.compile(r"arms\[(\d+)\]\.?(.*)")
_PLACEHOLDER: Final = re.compile(r"<[^<>]*>")


@dataclass(frozen=True, slots=True)
class Layout:
    """A decoded document in the frozen form, not yet validated."""

    document: Any
    origins: tuple[str, ...] = ()
    """For each arm, the field that it was written in; empty for the top level."""
    problems: tuple[FieldProblem, ...] = ()
    """What is wrong with the layout itself, in the fields of the written document."""

    def told(self, problems: list[FieldProblem]) -> tuple[FieldProblem, ...]:
        """The layout's problems and those found since, in written fields, each once."""
        known = {p.field for p in self.problems}
        written = [self._written(p) for p in problems]
        return tuple(dict.fromkeys([*self.problems, *(p for p in written if p.field not in known)]))

    def _written(self, problem: FieldProblem) -> FieldProblem:
        return replace(problem, field=self.written(problem.field))

    def written(self, field: str) -> str:
        """A field of the frozen form as the field that it was written in."""
        found = _ARM.fullmatch(field)
        if found is None or int(found[1]) >= len(self.origins):
            return field
        origin, rest = self.origins[int(found[1])], found[2]
        return ".".join(part for part in (origin, rest) if part) or "speculation"


def read_layout(document: Any) -> Layout:
    """The frozen form of a decoded document; one that is no object is left as it is."""
    if not isinstance(document, dict):
        return Layout(document)
    problems = [*_placeholders(document, ())]
    stated = _without_nulls(document)
    if "speculation" in stated and "arms" not in stated:
        written, origins = _single_arm(stated), ["arms[0]", ""]
    else:
        problems += _both(stated)
        written = stated if "arms" not in stated else {k: v for k, v in stated.items() if k not in SINGLE_ARM}
        origins = []
    arms = written.get("arms")
    if not isinstance(arms, list):
        return Layout(written, (), tuple(problems))
    return _expanded(written, arms, origins or [f"arms[{i}]" for i in range(len(arms))], problems)


def listed(document: dict[str, Any]) -> dict[str, Any]:
    """The document with its arms in a list, as written, and its sampling as fields; nothing is left out or checked."""
    whole = "speculation" in document and "arms" not in document
    told = _single_arm(document) if whole else dict(document)
    sampling = told.get("sampling")
    return told if not isinstance(sampling, str) else told | {"sampling": fields_of_line(sampling, SAMPLING_FORM)}


@contextmanager
def as_written(document: Any) -> Generator[None, None, None]:
    """Within: a ``ManifestRefused`` about the frozen form is told in the fields of the document that was written."""
    try:
        yield
    except ManifestRefused as error:
        raise ManifestRefused(*read_layout(document).told(list(error.problems))) from error


def _expanded(written: dict[str, Any], arms: list[Any], origins: list[str], problems: list[FieldProblem]) -> Layout:
    expansions = [(origin, expand_arm(arm)) for origin, arm in zip(origins, arms, strict=True)]
    for origin, expansion in expansions:
        problems += [replace(p, field=f"{origin}.{p.field}".lstrip(".")) for p in expansion.problems]
    return Layout(
        {**written, "arms": [arm for _, expansion in expansions for arm in expansion.arms]},
        tuple(origin for origin, expansion in expansions for _ in expansion.arms),
        tuple(problems),
    )


def _single_arm(document: dict[str, Any]) -> dict[str, Any]:
    """That arm against target-only; the arm is named after its method."""
    rest = {key: value for key, value in document.items() if key not in SINGLE_ARM}
    speculation = document["speculation"]
    method = speculation.get("method") if isinstance(speculation, dict) else None
    name = method.replace("_", "-") if isinstance(method, str) and method in set(Method) else "arm"
    arm = {"name": name, **{key: document[key] for key in SINGLE_ARM if key in document}}
    baseline = {"name": BASELINE_ARM, "speculation": {"method": str(Method.TARGET_ONLY)}}
    return {**rest, "arms": [baseline, arm]}


def _both(document: dict[str, Any]) -> Iterator[FieldProblem]:
    for key in SINGLE_ARM:
        if key in document and "arms" in document:
            message = "one arm at the top level and a list of arms cannot both be stated"
            yield FieldProblem(key, message, "move it into an entry of arms, or remove arms")


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _placeholders(value: Any, where: tuple[str | int, ...]) -> Iterator[FieldProblem]:
    """Values that a skeleton left to be filled in."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _placeholders(item, (*where, str(key)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _placeholders(item, (*where, index))
    elif isinstance(value, str) and _PLACEHOLDER.fullmatch(value.strip()):
        yield FieldProblem(
            dotted(where), f"it is still the placeholder {value.strip()[:120]}", "replace it by the value"
        )
