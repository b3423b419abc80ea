"""What the calibration of this host's client found: kept as one file, and void where the host has changed since."""

import hashlib
import os
import platform
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from app.domain.client_range import ClientHost, ClientRange
from worker.cores import cpu_model, may_preempt, split_cores

FILE_NAME = "client-range.json"
NEVER = "never calibrated: run `verdraft calibrate`"
_CLIENT_SOURCES = Path(__file__).resolve().parent / "replay"


@dataclass(frozen=True, slots=True)
class Calibrated:
    """``void`` says why a range that was kept does not hold here and now; it is empty where it does, or none was."""

    range: ClientRange | None = None
    void: str = ""

    @property
    def words(self) -> str:
        """For people."""
        if self.void:
            return f"{self.void}: run `verdraft calibrate` again"
        return NEVER if self.range is None else f"calibrated {self.range.measured}, {self.range.reach}"


def calibrated(home: Path) -> Calibrated:
    """What is known of this host's client."""
    try:
        found = ClientRange.model_validate_json((home / FILE_NAME).read_bytes())
    except FileNotFoundError:
        return Calibrated()
    except (OSError, ValidationError):
        return Calibrated(void=f"{FILE_NAME} cannot be read by this release")
    changed = found.host.changes_to(client_host())
    return Calibrated(found, f"calibrated {found.measured}, but since then {changed}" if changed else "")


def keep(home: Path, found: ClientRange) -> Path:
    """Replace the file in one step; returns where it is."""
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=home, prefix=f".{FILE_NAME}-", delete=False) as fresh:
        path = Path(fresh.name)
        try:
            fresh.write(found.model_dump_json(indent=1).encode())
            fresh.flush()
            os.fsync(fresh.fileno())
            path.replace(home / FILE_NAME)
        except BaseException:
            path.unlink()
            raise
    return home / FILE_NAME


def client_host() -> ClientHost:
    """What decides how well the client keeps time here."""
    cores = split_cores()
    return ClientHost(
        cpu_model=cpu_model(),
        client_cores=cores.client,
        engine_cores=cores.engine,
        kernel=platform.release(),
        python=platform.python_version(),
        real_time=may_preempt(),
        client_digest=_client_digest(),
    )


def _client_digest() -> str:
    """The client and the null engine that judges it, file by file."""
    found = hashlib.sha256()
    for path in sorted(_CLIENT_SOURCES.glob("*.py")):
        found.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()
