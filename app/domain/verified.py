"""What the verification phase asked of one server and got, apart from every timed run.

It is asked after a session's runs, so that no verified answer can disturb a measured one.
"""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict

VERIFIED_BLOCKS = 2
"""The phase runs in the sessions of the first two blocks: what differs between processes shows in two."""


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class VerificationMode(StrEnum):
    """How the answers came about; the first two are greedy."""

    CONCURRENT = "concurrent"
    """Several at once, as under load: steps are shared."""
    SINGLE = "single"
    """One request at a time: nothing shares its steps."""
    SAMPLED = "sampled"
    """At the experiment's own sampling, each with a seed of its own."""
    SAMPLED_HOTTER = "sampled hotter"
    """The negative control: sampled at another temperature, which every test must notice."""


class Alternative(_Frozen):
    """A token that the target could have chosen at one place."""

    token_id: int
    logit: float
    """Raw logit where ``VerificationRecord.raw_logits``, else natural logarithm of its probability."""


class VerifiedAnswer(_Frozen):
    """One answer to one request of a workload."""

    mode: VerificationMode
    workload: str
    request_id: str
    repeat: int
    """Counts from 0 over the answers of one server to one request in one mode."""
    token_ids: tuple[int, ...] = ()
    text: str = ""
    finish_reason: str | None = None
    seed: int | None = None
    alternatives: tuple[tuple[Alternative, ...], ...] = ()
    """For each place that was asked about, the most probable tokens, most probable first."""
    error: str | None = None
    """Why there is no answer; it never counts as an equal one."""


class ForcedChoice(_Frozen):
    """The target's most probable next tokens after a request's prompt and a given beginning of its answer."""

    workload: str
    request_id: str
    beginning: tuple[int, ...]
    alternatives: tuple[Alternative, ...]


class ScoredAnswer(_Frozen):
    """How an arm's sampled answer fits the target, by one target-only server; fields as ``sampled_places.Fit``."""

    arm: str
    mode: VerificationMode
    workload: str
    request_id: str
    repeat: int
    places: int
    outside: int
    log_likelihood: float
    surplus: float
    variance: float
    top_surplus: float
    top_variance: float


class VerificationRecord(_Frozen):
    """All that one server was asked beside its runs."""

    answers: tuple[VerifiedAnswer, ...] = ()
    choices: tuple[ForcedChoice, ...] = ()
    raw_logits: bool = False
    """Whether ``logit`` is one; where the runtime cannot tell them it is a log probability."""
    left_out: dict[str, str] = {}
    """What was not asked → why."""
    scored: tuple[ScoredAnswer, ...] = ()
    """Sampled answers of any arm of the block, scored by this server; a target-only one."""
    token_texts: dict[int, str] = {}
    """What some token ids say, for people."""
