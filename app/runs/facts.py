"""What a worker records of a server as one value, once it has started or has failed to."""

from dataclasses import dataclass, field

from app.domain.device import Device
from app.domain.memory import MemoryBreakdown
from app.domain.startup import CanaryFacts, ConfigSource, StartupWarning


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """How one server started, and what it says of itself."""

    startup_ns: int | None
    argv: tuple[str, ...]
    log_sha256: str
    resolved_config: dict[str, str]
    memory: dict[str, str]
    config_source: ConfigSource | None = None
    warnings: tuple[StartupWarning, ...] = ()
    canary: CanaryFacts | None = None
    memory_breakdown: MemoryBreakdown | None = None
    devices: tuple[Device, ...] = ()
    flags_left_out: dict[str, str] = field(default_factory=dict[str, str])
