"""What is to be made: families, languages, dials and loads. The same spec always makes the same bytes."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from app.domain.arrival import BURSTINESS_MAX, BURSTINESS_MIN, ArrivalKind, offered_count
from app.domain.refusals import refusal
from app.domain.trace_header import CLIENTS_MAX
from app.domain.vocabulary import NS_PER_S, WARMUP, Name
from app.synthetic.families import Family
from app.synthetic.language import LanguageCode
from app.synthetic.texts import Length

WARMUP_MIN = 16
REQUESTS_MAX = 10_000_000


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SyntheticLoad(_Frozen):
    """One load point: ``rate_rps`` for ``duration_s`` (open loop), or ``requests`` by ``clients`` (closed loop)."""

    name: Name
    rate_rps: Annotated[float, Field(gt=0, le=10_000)] | None = None
    duration_s: Annotated[float, Field(gt=0, le=86_400)] | None = None
    clients: Annotated[int, Field(ge=1, le=CLIENTS_MAX)] | None = None
    requests: Annotated[int, Field(ge=1, le=REQUESTS_MAX)] | None = None
    arrival: ArrivalKind = ArrivalKind.POISSON
    burstiness: Annotated[float, Field(ge=BURSTINESS_MIN, le=BURSTINESS_MAX)] | None = None
    """Of ``gamma``: 1 is Poisson, below 1 is burstier."""
    start_rps: Annotated[float, Field(ge=0, le=10_000)] | None = None
    """Of ``ramp``: the rate at the start; it ends as far above ``rate_rps``, the mean, as it began below."""

    @model_validator(mode="after")
    def _open_or_closed(self) -> "SyntheticLoad":
        is_open = self.rate_rps is not None and self.duration_s is not None
        is_closed = self.clients is not None and self.requests is not None
        given = sum(value is not None for value in (self.rate_rps, self.duration_s, self.clients, self.requests))
        if given != 2 or is_open == is_closed:  # noqa: PLR2004  (a pair)
            raise refusal(
                "it is neither an open nor a closed loop", "give rate_rps and duration_s, or clients and requests"
            )
        if self.name == WARMUP:
            raise refusal(f"the name {WARMUP} is reserved for the warm-up", "choose another name")
        if (self.burstiness is not None) != (self.arrival is ArrivalKind.GAMMA):
            raise refusal("burstiness belongs to gamma arrivals, and they need it", "give both, or neither")
        if (self.start_rps is not None) != (self.arrival is ArrivalKind.RAMP):
            raise refusal("start_rps belongs to ramp arrivals, and they need it", "give both, or neither")
        return self

    @property
    def duration_ns(self) -> int:
        """0 in a closed loop."""
        return round((self.duration_s or 0) * NS_PER_S)

    def count(self, turns: int) -> int:
        """Requests, as whole sessions of ``turns``."""
        wanted = self.requests or offered_count(self.rate_rps or 0, self.duration_ns)
        return max(1, wanted // turns) * turns


class Sessions(_Frozen):
    """Conversations of several turns instead of single requests."""

    turns: Annotated[int, Field(ge=2, le=32)]
    answer: Literal["recorded", "own"]
    think_s: Annotated[float, Field(ge=0, le=3600)] = 1.0
    """Between an answer's end and the next turn; where answers are recorded, between due times."""


class SyntheticSpec(_Frozen):
    """A whole workload."""

    name: Name
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    loads: Annotated[tuple[SyntheticLoad, ...], Field(min_length=1, max_length=32)]
    families: Annotated[tuple[Family, ...], Field(min_length=1)] = tuple(Family)
    languages: Annotated[tuple[LanguageCode, ...], Field(min_length=1)] = (LanguageCode.EN,)
    lengths: Annotated[tuple[Length, ...], Field(min_length=1)] = (Length.SHORT, Length.MEDIUM)
    repetitiveness: Annotated[tuple[Annotated[float, Field(ge=0, le=1)], ...], Field(min_length=1, max_length=8)] = (
        0.0,
    )
    form: Literal["chat", "text"] = "chat"
    """Messages to the chat route, or one text to the completions route."""
    template: Annotated[str, Field(max_length=2_000)] = "{task}\n"
    """Of ``text``: what stands around the task, such as a model's own chat format."""
    constrained: bool = False
    """Constrain the answers of ``extract`` by their JSON Schema."""
    sampled_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of requests that sample (temperature 0.8, a seed each) instead of following the manifest."""
    shared_arrivals: bool = False
    """Open loops of equal duration take their arrivals from one point process, that of the highest rate."""
    sessions: Sessions | None = None
    warmup_requests: Annotated[int, Field(ge=0, le=100_000)] | None = None
    """Absent: one request for every combination of family, language, length and repetitiveness, at least 16."""
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Absent: room for each right answer, and 128 for an open end."""

    @model_validator(mode="after")
    def _fits_together(self) -> "SyntheticSpec":
        names = [load.name for load in self.loads]
        if len(set(names)) < len(names):
            raise refusal("two loads have the same name", "give each load a name of its own")
        if self.sessions is not None and self.form != "chat":
            raise refusal("sessions are conversations", "let form be chat, or leave sessions out")
        if self.template.count("{task}") != 1:
            raise refusal("the template has no single place for the task", "write {task} in it once")
        if self.shared_arrivals and len({load.duration_s for load in self.loads if load.rate_rps is not None}) > 1:
            raise refusal("loads that share arrivals must last equally long", "give the open loops one duration_s")
        if self.warmup_requests is not None and 0 < self.warmup_requests < self.cells:
            message = f"{self.warmup_requests} warm-up requests cannot cover {self.cells} combinations"
            raise refusal(message, f"give at least {self.cells}, or leave warmup_requests out")
        return self

    @property
    def cells(self) -> int:
        """Combinations of family, language, length and repetitiveness."""
        return len(self.families) * len(self.languages) * len(self.lengths) * len(self.repetitiveness)

    @property
    def warmup(self) -> int:
        """How many warm-up requests there are."""
        return max(WARMUP_MIN, self.cells) if self.warmup_requests is None else self.warmup_requests
