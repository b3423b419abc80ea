"""What the driver says of one GPU that an engine had: identity, and what may explain its speed."""

from pydantic import BaseModel, ConfigDict


class Device(BaseModel):
    """One GPU at the start of a session. ``None`` where this driver or chip does not tell."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    uuid: str
    model: str
    driver: str
    cuda: str | None = None
    """The newest CUDA that the driver serves, ``13.0``."""
    memory_bytes: int
    pci_bus_id: str | None = None
    ecc: bool | None = None
    mig: bool | None = None
    persistence: bool | None = None
    power_limit_w: float | None = None
    sm_clock_max_mhz: int | None = None
    memory_clock_max_mhz: int | None = None
    links: dict[str, str] = {}
    """UUID of each other GPU that was leased with it → how they are joined (``NVLINK``, ``PCIE``, …)."""
