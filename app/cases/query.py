"""Which cases and in which order: one typed query that is the page's whole address and the API's parameters."""

from enum import StrEnum
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from app.domain.condition import Condition, expand
from app.domain.errors import FieldProblem, NotFound
from app.domain.manifest import Manifest
from app.domain.vocabulary import Name, Outcome

HEAD_BYTES: Final = 32
"""Of an answer: so much of it can be searched."""
_LABEL: Final = r"^[a-z0-9][a-z0-9._-]{0,62}=[a-z0-9][a-z0-9._-]{0,62}$"


def _empty_is_absent(value: object) -> object:
    return None if value == "" else value


_Absent = BeforeValidator(_empty_is_absent)
Label = Annotated[Annotated[str, StringConstraints(pattern=_LABEL)] | None, _Absent]
Milliseconds = Annotated[Annotated[float, Field(ge=0, le=1e9)] | None, _Absent]
Tokens = Annotated[Annotated[int, Field(ge=0, le=2**53)] | None, _Absent]


class Sort(StrEnum):
    """What cases are ordered by; a minus puts the largest first. Cases without the number come last."""

    E2E_DOWN = "-e2e"
    E2E = "e2e"
    TTFT_DOWN = "-ttft"
    TTFT = "ttft"
    TPOT_DOWN = "-tpot"
    TPOT = "tpot"
    LATE_DOWN = "-late"
    LATE = "late"
    RATIO_DOWN = "-ratio"
    RATIO = "ratio"
    ACCEPTANCE_DOWN = "-acceptance"
    ACCEPTANCE = "acceptance"
    TOKENS_DOWN = "-tokens"
    TOKENS = "tokens"
    PROMPT_DOWN = "-prompt"
    PROMPT = "prompt"
    REQUEST = "request"
    REQUEST_DOWN = "-request"

    @property
    def column(self) -> str:
        """Without the direction."""
        return self.value.removeprefix("-")

    @property
    def down(self) -> bool:
        """Whether the largest come first."""
        return self.value.startswith("-")


class Answer(StrEnum):
    """An answer beside target-only's to the same request in the same block."""

    SAME = "same"
    DIFFERS = "differs"


class Scored(StrEnum):
    """What a scorer says of an answer."""

    CORRECT = "correct"
    WRONG = "wrong"
    UNSCORED = "unscored"


class Which(StrEnum):
    """Void and failed runs are evidence, too, but nothing is compared by them."""

    COUNTED = "counted"
    LEFT_OUT = "left-out"
    ANY = "any"


class CaseQuery(BaseModel):
    """Filters, order and place. An absent part means all of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    arm: Annotated[Name | None, _Absent] = None
    workload: Annotated[Name | None, _Absent] = None
    load: Annotated[Name | None, _Absent] = None
    stratum: Annotated[Label, Field(description="`dimension=label`, such as task=copy.")] = None
    block: Annotated[Annotated[int, Field(ge=1, le=10_000)] | None, _Absent] = None
    outcome: Annotated[Outcome | None, _Absent] = None
    answer: Annotated[Answer | None, _Absent] = None
    score: Annotated[Scored | None, _Absent] = None
    runs: Which = Which.COUNTED
    request: Annotated[
        Annotated[str, StringConstraints(max_length=64, pattern=r"^[A-Za-z0-9._-]+$")] | None,
        _Absent,
        Field(description="What the request's id begins with."),
    ] = None
    text: Annotated[
        Annotated[str, StringConstraints(max_length=HEAD_BYTES)] | None,
        _Absent,
        Field(description=f"What the answer begins with, up to {HEAD_BYTES} bytes; letters as they are."),
    ] = None
    e2e_min: Annotated[Milliseconds, Field(description="E2E of at least so many milliseconds.")] = None
    ttft_min: Annotated[Milliseconds, Field(description="TTFT of at least so many milliseconds.")] = None
    tpot_min: Annotated[Milliseconds, Field(description="TPOT of at least so many milliseconds.")] = None
    late_min: Annotated[Milliseconds, Field(description="Sent at least so many milliseconds after the due time.")] = (
        None
    )
    ratio_min: Annotated[
        Annotated[float, Field(ge=0, le=1e9)] | None,
        _Absent,
        Field(description="E2E at least so many times target-only's of the same request and block."),
    ] = None
    tokens_min: Annotated[Tokens, Field(description="Output tokens.")] = None
    tokens_max: Tokens = None
    prompt_min: Annotated[Tokens, Field(description="Prompt tokens.")] = None
    prompt_max: Tokens = None
    sort: Sort = Sort.E2E_DOWN
    after: Annotated[
        Annotated[str, StringConstraints(max_length=120, pattern=r"^[A-Za-z0-9._+-]*~\d{1,19}$")] | None,
        _Absent,
        Field(description="`next_cursor` of the page before."),
    ] = None

    @property
    def parts(self) -> dict[str, Any]:
        """What differs from the defaults, in the one order of addresses."""
        return self.model_dump(mode="json", exclude_defaults=True, exclude_none=True)

    @property
    def narrows(self) -> bool:
        """Whether anything is filtered by what is not a property of the run."""
        by_run = {"arm", "workload", "load", "block", "runs", "sort", "after"}
        return not self.parts.keys() <= by_run

    def address(self, path: str, **changes: object) -> str:
        """The canonical address: fixed order, defaults left out; a change goes back to the first page."""
        changed = self.model_copy(update={"after": None, **changes}) if changes else self
        parts = changed.parts
        return f"{path}?{urlencode(parts)}" if parts else path

    def conditions(self, manifest: Manifest) -> dict[int, Condition]:
        """The conditions asked for, by their numbers; raises ``NotFound`` for what the experiment does not have."""
        known = {
            "arm": (self.arm, [arm.name for arm in manifest.arms]),
            "workload": (self.workload, [workload.name for workload in manifest.workloads]),
            "load": (self.load, [load.name for load in manifest.loads]),
        }
        wrong = [
            FieldProblem(field, f"{asked} is not in this experiment", f"choose one of {', '.join(have)}")
            for field, (asked, have) in known.items()
            if asked is not None and asked not in have
        ]
        if wrong:
            raise NotFound(*wrong)
        return {
            number: one
            for number, one in enumerate(expand(manifest))
            if all(
                asked in (None, is_)
                for asked, is_ in ((self.arm, one.arm), (self.workload, one.workload), (self.load, one.load))
            )
        }
