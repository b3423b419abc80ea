"""Every setting, from the environment (``VERDRAFT_…``), read once by whoever starts a process.

``.env.example`` lists them with their defaults; a test keeps the two the same.
"""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

PROJECT_ROOT = Path(__file__).resolve().parent.parent


class Settings(BaseSettings):
    """Frozen for the life of a process."""

    model_config = SettingsConfigDict(env_prefix="VERDRAFT_", frozen=True, extra="ignore")

    home: Path = Field(
        default=PROJECT_ROOT / ".verdraft", description="Everything the service writes: databases, artifacts, logs."
    )
    database_url: SecretStr = Field(
        default=SecretStr("postgresql+psycopg://verdraft@127.0.0.1:5432/verdraft"),
        description="SQLAlchemy URL of Postgres; set by `verdraft up` for the embedded one.",
    )
    redis_url: SecretStr = Field(
        default=SecretStr("redis://127.0.0.1:6379/0"),
        description="Celery's broker; set by `verdraft up` for the embedded one.",
    )
    artifact_url: str = Field(
        default="",
        description="Where logs and raw files are kept, by fsspec: a directory, s3://bucket/prefix; "
        "empty is `artifacts` in VERDRAFT_HOME.",
    )
    host: str = Field(default="127.0.0.1", description="Address the web process binds.")
    port: int = Field(default=8400, ge=1, le=65535, description="Port the web process binds.")
    access: Literal["open", "required"] = Field(
        default="open",
        description="`open`: everybody who reaches loopback is the administrator; `required`: everybody needs a token "
        "or an account. Bound wider than loopback the service starts only with `required`.",
    )
    public_url: str = Field(
        default="",
        pattern=r"^(https?://[A-Za-z0-9.:\[\]-]+)?$",
        description="Where browsers find the service, if by another name or through TLS: https://verdraft.example.org.",
    )
    submits_per_minute: int = Field(
        default=60, ge=1, description="Experiments, traces and results that one token or account may send in a minute."
    )
    logins_per_minute: int = Field(
        default=10, ge=1, description="Attempts to log in, of one address and for one account, in a minute."
    )
    project_queue_max: int = Field(
        default=200, ge=1, description="Unfinished experiments of one project; more are refused until some end."
    )
    model_root: Path = Field(
        default=PROJECT_ROOT / "models", description="Directory whose sub-directories are the `local:` aliases."
    )
    runtime_root: Path = Field(
        default=PROJECT_ROOT / ".runtimes", description="Directory whose sub-directories are engine runtimes."
    )
    online: bool = Field(
        default=False,
        description="Whether a pinned model that is not here may be downloaded from the Hugging Face Hub.",
    )
    torch_index: str = Field(
        default="https://download.pytorch.org/whl/cpu",
        description="Index with PyTorch's CPU builds; asked only where pip's own set-up does not know the version.",
    )
    startup_timeout_s: float = Field(
        default=660, gt=0, description="Longest start-up of an engine; longer only while its log grows."
    )
    hang_timeout_s: float = Field(
        default=30, gt=0, description="An engine with running requests that produces nothing for this long hangs."
    )
    lease_s: float = Field(
        default=60,
        gt=0,
        description="A block whose worker is silent for this long is queued again; two thirds, and it stops itself.",
    )
    wake_period_s: float = Field(
        default=15, gt=0, description="How often an idle worker looks for blocks by itself, whatever the broker does."
    )
    processor_places: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Engines that a host without GPU serves at once; with several, timings disturb each other.",
    )
    free_bytes_min: int = Field(
        default=1024**3, ge=0, description="With less free disk than this a worker takes no block and stops its own."
    )
    engine_log_bytes_max: int = Field(
        default=256 * 1024**2, gt=0, description="An engine that has written more log than this is stopped."
    )
    page_patience_s: float = Field(
        default=0.4,
        ge=0,
        description="How long a page waits for a report that is being computed before it shows itself without.",
    )
    live: bool = Field(
        default=True,
        description="Whether workers tell pages, each second, what the run under way does; never evidence.",
    )
    idempotency_hours: float = Field(
        default=24, gt=0, description="How long the answer to a request with an Idempotency-Key is kept."
    )
    webhook_loopback: bool = Field(
        default=False, description="Whether webhooks may be plain http to this host; only with VERDRAFT_ACCESS=open."
    )
    log_level: str = Field(default="INFO", description="Level of the service's own log.")

    @property
    def webhooks_to_loopback(self) -> bool:
        """Where everybody on this host is the administrator anyway, a webhook opens nothing to anybody."""
        return self.webhook_loopback and self.access == "open"

    @property
    def digest_root(self) -> Path:
        """Where the digests of files that have not changed since are remembered."""
        return self.home / "digests"

    @property
    def artifact_root(self) -> Path:
        """Where content-addressed artifacts (logs, raw chunks) live unless another store is set."""
        return self.home / "artifacts"

    @property
    def artifacts(self) -> str:
        """The artifact store, by path or URL."""
        return self.artifact_url or str(self.artifact_root)

    @property
    def lock_root(self) -> Path:
        """One lock file for each accelerator of this host."""
        return self.home / "locks"

    @property
    def heartbeat_s(self) -> float:
        """How often a holder extends its lease."""
        return self.lease_s / 6

    @property
    def self_fence_s(self) -> float:
        """Without a heartbeat for this long, less than the lease, the holder stops by itself."""
        return self.lease_s * 2 / 3

    @property
    def prompt_root(self) -> Path:
        """Privacy mode: prompt files by the digest of their trace, and the project's key; only workers read it."""
        return self.home / "prompts"
