"""What was sampled in time: values of one name and set of labels, on the clock of the run.

vLLM's metrics keep their names, summed over ``engine``. Ours begin with where they were read: ``device:`` (a GPU's
driver), ``engine:`` (the engine's processes) or ``host:``; the unit ends the name.
"""

from collections.abc import Iterable, Iterator

from pydantic import BaseModel, ConfigDict, model_validator

POWER = "device:power_w"
SM_CLOCK = "device:sm_clock_mhz"
MEMORY_CLOCK = "device:memory_clock_mhz"
TEMPERATURE = "device:temperature_c"
UTILIZATION = "device:utilization_perc"
DEVICE_MEMORY = "device:memory_used_bytes"
ENGINE_DEVICE_MEMORY = "device:engine_memory_bytes"
"""Device memory of the engine's own processes, where the driver tells it."""
THROTTLE_REASONS = "device:throttle_reasons"
"""NVML's bit mask of why clocks are held down."""
ENERGY = "device:energy_j"
"""Joules since the driver was loaded; only differences mean anything."""
FOREIGN_PROCESSES = "device:foreign_processes"
"""How many processes that are not the engine's have a context on the GPU."""
ENGINE_RSS = "engine:rss_bytes"
ENGINE_CPU = "engine:cpu_s"
"""Processor seconds of the engine's whole tree since it started."""
FOREIGN_CPU = "host:foreign_cpu_s"
"""Processor seconds of everything but the engine and the load generator, since sampling began."""
STOLEN_CPU = "host:stolen_cpu_s"
"""Processor seconds that a hypervisor took, since sampling began."""
CLOCK_OFFSET = "host:clock_offset_ns"
"""Wall clock less monotonic clock: constant unless somebody sets the wall clock."""


class Series(BaseModel):
    """``values[i]`` was read at ``at_ns[i]`` nanoseconds after the replay's start; negative before it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    labels: dict[str, str] = {}
    at_ns: tuple[int, ...]
    values: tuple[float, ...]

    @model_validator(mode="after")
    def _have_equal_lengths(self) -> "Series":
        if len(self.at_ns) != len(self.values):
            raise ValueError(f"{self.name} has {len(self.at_ns)} times and {len(self.values)} values")
        return self

    def increase(self) -> float | None:
        """The last value less the first; ``None`` below two samples."""
        return self.values[-1] - self.values[0] if len(self.values) > 1 else None


def having(series: Iterable[Series], name: str, **labels: str) -> Iterator[Series]:
    """Those of that name that carry these labels."""
    return (s for s in series if s.name == name and labels.items() <= s.labels.items())


def the_one(series: Iterable[Series], name: str, **labels: str) -> Series | None:
    """The first of ``having``; ``None`` where there is none."""
    return next(having(series, name, **labels), None)
