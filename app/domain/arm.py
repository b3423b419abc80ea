"""An arm: target-only, or one proposer with one number of speculative tokens and the draft that it needs."""

from collections.abc import Iterator
from typing import Literal

from pydantic import BaseModel, ConfigDict, model_validator

from app.domain.proposer import METHODS_WITH_DRAFT, METHODS_WITH_MODEL, Speculation
from app.domain.references import NO_DRAFT, DraftRef
from app.domain.refusals import Flaw, refuse
from app.domain.vocabulary import Method, Name
from app.domain.written import Text


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Provenance(_Frozen):
    """Where a draft comes from and what it cost (spec M5), as far as it is known."""

    training_data: Text | None = None
    target_revision: Text | None = None
    """The target that the draft was trained for, as ``repository@commit`` or in words."""
    training_cost: Text | None = None
    licence: Text | None = None


class Arm(_Frozen):
    """One server configuration under comparison; arms differ in nothing but what is here."""

    name: Name
    draft_or_speculator: DraftRef = NO_DRAFT
    speculation: Speculation
    provenance: Provenance | None = None
    as_deployed: Literal[True] | None = None
    """Target-only once more, with the model runner and the scheduling that the engine chooses by itself."""

    @property
    def speculates(self) -> bool:
        """Whether it proposes anything."""
        return self.speculation.method is not Method.TARGET_ONLY

    @property
    def k(self) -> int | None:
        """Speculative tokens a step; 0 where a schedule says how many, ``None`` without speculation."""
        return (self.speculation.num_speculative_tokens or 0) if self.speculates else None

    @model_validator(mode="after")
    def _draft_fits_method(self) -> "Arm":
        refuse(self, _flaws(self))
        return self


def _flaws(arm: Arm) -> Iterator[Flaw]:
    """A draft exactly where the method has one, and a provenance only of a draft."""
    method, named = arm.speculation.method, arm.draft_or_speculator != NO_DRAFT
    if named and method not in METHODS_WITH_MODEL:
        yield Flaw(("draft_or_speculator",), f"{method} takes no draft", "write none, or choose the draft's method")
    if not named and method in METHODS_WITH_DRAFT:
        remedy = "name the draft model or head, with its commit or digest"
        yield Flaw(("draft_or_speculator",), f"{method} needs draft_or_speculator", remedy)
    if arm.as_deployed and arm.speculates:
        message = f"{method} is compared on the same model runner and scheduling as target-only"
        yield Flaw(("as_deployed",), message, "remove it; only a second target_only arm may be as deployed")
    if arm.provenance == Provenance():
        yield Flaw(("provenance",), "it states nothing", "state a part of it, or remove it")
    if arm.provenance is not None and method not in METHODS_WITH_MODEL:
        yield Flaw(("provenance",), f"{method} has no draft whose provenance could be stated", "remove it")
