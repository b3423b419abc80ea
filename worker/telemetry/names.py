"""The quantities that are sampled. The sampler imports no pydantic, so it has the domain's names once more.

``app.domain.series`` says what each one is; a test holds the two to each other.
"""

POWER = "device:power_w"
SM_CLOCK = "device:sm_clock_mhz"
MEMORY_CLOCK = "device:memory_clock_mhz"
TEMPERATURE = "device:temperature_c"
UTILIZATION = "device:utilization_perc"
DEVICE_MEMORY = "device:memory_used_bytes"
ENGINE_DEVICE_MEMORY = "device:engine_memory_bytes"
THROTTLE_REASONS = "device:throttle_reasons"
ENERGY = "device:energy_j"
FOREIGN_PROCESSES = "device:foreign_processes"
ENGINE_RSS = "engine:rss_bytes"
ENGINE_CPU = "engine:cpu_s"
FOREIGN_CPU = "host:foreign_cpu_s"
STOLEN_CPU = "host:stolen_cpu_s"
CLOCK_OFFSET = "host:clock_offset_ns"
HARNESS_CPU = "host:harness_cpu_s"
"""Processor seconds of the load generator and of the worker that conducts, since sampling began."""
SAMPLER_CPU = "host:sampler_cpu_s"
"""Processor seconds of the sampler itself."""

FAST: tuple[str, ...] = (POWER, SM_CLOCK, MEMORY_CLOCK)
SLOW: tuple[str, ...] = (TEMPERATURE, UTILIZATION, DEVICE_MEMORY, THROTTLE_REASONS, ENERGY)
PROCESSES: tuple[str, ...] = (ENGINE_DEVICE_MEMORY, FOREIGN_PROCESSES)
OF_DEVICE: tuple[str, ...] = (*FAST, *SLOW, *PROCESSES)
OF_HOST: tuple[str, ...] = (ENGINE_RSS, ENGINE_CPU, FOREIGN_CPU, STOLEN_CPU, CLOCK_OFFSET, HARNESS_CPU, SAMPLER_CPU)

Reading = dict[str, float | str]
"""Quantity → its value, or in words why there is none."""
