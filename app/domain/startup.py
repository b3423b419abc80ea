"""What a starting server said of itself: warnings with their effect, its configuration's source, its first drafts.

The engine adapter fills these in; ``startup_gates`` says what they mean for a comparison.
"""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WarningEffect(StrEnum):
    """What a known warning means for what is measured."""

    FAILS_PREFLIGHT = "fails preflight"
    """The engine did something else than the manifest says: no comparison may rest on this server."""
    NOTICE = "notice"
    """Worth knowing; what runs is what was asked for."""


class StartupWarning(_Frozen):
    """A known warning of the engine's log, and the line that says it."""

    name: str
    effect: WarningEffect
    reason: str
    line: str


class ConfigSource(StrEnum):
    """Where a resolved configuration was read; two sources name the same setting differently."""

    SERVER_INFO = "server_info"
    """The running server's own document."""
    LOG = "log"
    """The log's configuration line and arguments, where there was no server to ask."""


class CanaryFacts(_Frozen):
    """The engine's speculative counters right after the canary; ``None`` where it exposes none."""

    exposes_speculation: bool
    drafted: int | None = None
    accepted: int | None = None
