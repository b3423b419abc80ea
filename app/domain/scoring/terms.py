"""How a workload's answers are scored, as a manifest declares it before anything is measured."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from app.domain.refusals import Flaw, refusal, refuse
from app.domain.scoring.patterns import PatternRefused, compiled
from app.domain.strict_json import Flaw as JsonFlaw
from app.domain.strict_json import loads_strict
from app.domain.written import positive_zero

MARGIN: Final = 0.02
"""Two percentage points: differences in the share of correct answers below it are taken as none."""
TIMEOUT_S: Final = 10.0
PATTERN_MAX: Final = 10_000
SCHEMA_MAX: Final = 100_000


class ScorerName(StrEnum):
    """What decides whether an answer is right."""

    EXACT = "exact"
    NORMALISED = "normalised"
    NUMERIC = "numeric"
    OVERLAP = "overlap"
    REGEX = "regex"
    JSON_SCHEMA = "json_schema"
    UNIT_TESTS = "unit_tests"


class Overlap(StrEnum):
    """How much two texts share."""

    TOKEN_F1 = "token_f1"  # noqa: S105  (a measure, not a secret)
    ROUGE_L = "rouge_l"


def _pattern(value: str) -> str:
    try:
        compiled(value)
    except PatternRefused as error:
        remedy = "write it without references back and without looking around; RE2's syntax is taken"
        raise refusal(f"it is no pattern that is matched in bounded time: {error}", remedy) from error
    return value


def _schema_text(value: str) -> str:
    try:
        document = loads_strict(value.encode())
    except JsonFlaw as flaw:
        raise refusal(f"it is no JSON: {flaw}", "give the JSON Schema as text") from flaw
    if not isinstance(document, dict):
        raise refusal("it is JSON, but no object", "give a JSON Schema that is an object")
    return value


Tolerance = Annotated[float, Field(ge=0, le=1e300), AfterValidator(positive_zero)]


class Quality(BaseModel):
    """Declared for a workload before it is measured. See ``docs/quality.md``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    scorer: ScorerName
    correct_from: Annotated[float, Field(gt=0, le=1)] = 1.0
    """The score from which an answer counts as correct."""
    margin: Annotated[float, Field(gt=0, lt=1)] = MARGIN
    """Arms are equivalent where their shares of correct answers differ by less."""
    samples: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Of each load point so many requests are scored, drawn by the digests of their ids; absent: all."""
    pattern: (
        Annotated[str, StringConstraints(min_length=1, max_length=PATTERN_MAX), AfterValidator(_pattern)] | None
    ) = None
    json_schema: (
        Annotated[str, StringConstraints(min_length=2, max_length=SCHEMA_MAX), AfterValidator(_schema_text)] | None
    ) = None
    """As text, so that a null within it stays."""
    absolute_tolerance: Tolerance | None = None
    relative_tolerance: Tolerance | None = None
    measure: Overlap | None = None
    timeout_s: Annotated[float, Field(ge=0.1, le=60)] | None = None

    @model_validator(mode="after")
    def _keys_fit_scorer(self) -> "Quality":
        refuse(self, _flaws(self))
        return self


_READERS: Final[Mapping[str, ScorerName]] = {
    "pattern": ScorerName.REGEX,
    "json_schema": ScorerName.JSON_SCHEMA,
    "absolute_tolerance": ScorerName.NUMERIC,
    "relative_tolerance": ScorerName.NUMERIC,
    "measure": ScorerName.OVERLAP,
    "timeout_s": ScorerName.UNIT_TESTS,
}


def _flaws(quality: Quality) -> Iterator[Flaw]:
    for key, reader in _READERS.items():
        if getattr(quality, key) is not None and quality.scorer is not reader:
            yield Flaw((key,), f"{quality.scorer} would ignore this key", f"remove it; it belongs to {reader}")
    if quality.scorer is ScorerName.OVERLAP and "correct_from" not in quality.model_fields_set:
        remedy = "state from which score an answer is correct, such as 0.8"
        yield Flaw(("correct_from",), "overlap gives shares, and which of them is correct is not guessed", remedy)
