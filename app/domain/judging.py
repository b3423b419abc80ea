"""How an experiment is judged, declared before it is measured: objectives, margins, and the family of comparisons."""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from app.domain.refusals import refusal
from app.domain.vocabulary import NAME_PATTERN, Name

ALL_ARMS: Final = "all"
MILLISECONDS_MAX: Final = 86_400_000

Milliseconds = Annotated[float, Field(gt=0, le=MILLISECONDS_MAX)]


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Slo(_Frozen):
    """Service level objectives of one request, for goodput; all must hold together."""

    ttft_ms: Milliseconds
    tpot_ms: Milliseconds
    e2e_ms: Milliseconds


class Margins(_Frozen):
    """``delta``: the smallest relative effect worth acting on (method A9)."""

    delta: Annotated[float, Field(gt=0, lt=1)] = 0.05
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95


def _all_or_names(value: Any) -> Any:
    if value != ALL_ARMS and not _names(value):
        raise refusal("it is neither all nor a list of arm names", "write all, or name the arms that are decided on")
    return value


def _names(value: Any) -> bool:
    listed = isinstance(value, list | tuple) and bool(value)
    return listed and all(isinstance(name, str) and re.fullmatch(NAME_PATTERN, name) for name in value)


class Family(_Frozen):
    """The arms that are decided on together (method A8); an arm outside the family is shown as exploratory."""

    comparisons: Annotated[Literal["all"] | tuple[Name, ...], BeforeValidator(_all_or_names)] = ALL_ARMS
    correction: Literal["holm"] = "holm"
