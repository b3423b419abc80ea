"""What is replayed: frozen traces by name, and the load points that each of them holds."""

from collections.abc import Iterator
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from app.domain.refusals import Flaw, refuse
from app.domain.scoring.terms import Quality
from app.domain.vocabulary import WARMUP, Name, RateKind, Regime, Sha256

RATE_RPS_MAX: Final = 10_000
CLIENTS_MAX: Final = 4096


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WorkloadRef(_Frozen):
    """A frozen trace by name and content address, and what makes its answers right."""

    name: Name
    trace: Sha256
    quality: Quality | None = None
    """How its answers are scored; absent: they are not."""
    degenerate_margin: Annotated[float, Field(gt=0, lt=1)] | None = None
    """By how much more often an arm's answers may be degenerate than target-only's; absent: 0.02."""


class LoadPoint(_Frozen):
    """An offered load; the arrival offsets themselves are frozen in each trace."""

    name: Name
    kind: RateKind = RateKind.OPEN_LOOP
    regime: Regime
    rate_rps: Annotated[float, Field(gt=0, le=RATE_RPS_MAX)] | None = None
    """Requests/s of an open loop."""
    clients: Annotated[int, Field(ge=1, le=CLIENTS_MAX)] | None = None
    """Of a closed loop: so many requests are in flight."""

    @model_validator(mode="after")
    def _kind_decides_keys(self) -> "LoadPoint":
        refuse(self, _flaws(self))
        return self

    @property
    def level(self) -> float:
        """Requests/s or clients: orders load points of one kind, low to high."""
        return float(self.rate_rps if self.rate_rps is not None else self.clients or 0)

    @property
    def offered(self) -> str:
        """The load in words."""
        return f"{self.rate_rps:g} requests/s" if self.rate_rps is not None else f"closed loop of {self.clients}"


def _flaws(load: LoadPoint) -> Iterator[Flaw]:
    own, other = ("rate_rps", "clients") if load.kind is RateKind.OPEN_LOOP else ("clients", "rate_rps")
    if getattr(load, own) is None:
        yield Flaw((own,), f"{load.kind} needs {own}", f"add it; {_RANGES[own]}")
    if getattr(load, other) is not None:
        yield Flaw((other,), f"{load.kind} takes no {other}", f"remove it, or let kind be {_KINDS[other]}")
    if load.name == WARMUP:
        message = f"the name {WARMUP} is reserved for the warm-up of a trace"
        yield Flaw(("name",), message, "choose another name")


_RANGES: Final = {
    "rate_rps": f"requests/s, above 0 and at most {RATE_RPS_MAX}",
    "clients": f"requests in flight, from 1 to {CLIENTS_MAX}",
}
_KINDS: Final = {"rate_rps": RateKind.OPEN_LOOP, "clients": RateKind.CLOSED_LOOP}
