"""What the sampler asks of GPUs, whoever answers."""

from typing import Any, Protocol

from worker.telemetry.names import Reading
from worker.telemetry.occupancy import EnginePids


class DeviceReader(Protocol):
    """What the sampler asks of GPUs; ``nvml`` answers it, or a recording of it."""

    @property
    def uuids(self) -> tuple[str, ...]:
        """The GPUs that it reads."""
        ...

    def facts(self) -> tuple[dict[str, Any], ...]:
        """What does not change, as fields of the domain's ``Device``; without those that cannot be asked."""
        ...

    def fast(self, uuid: str) -> Reading:
        """Power and clocks."""
        ...

    def slow(self, uuid: str) -> Reading:
        """Temperature, utilisation, memory, throttle reasons and energy."""
        ...

    def processes(self, uuid: str, engine: EnginePids) -> Reading:
        """Whose processes are on it."""
        ...
