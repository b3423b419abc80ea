"""What an engine did with a case, kept on disk so that preflight can be judged again without starting engines."""

from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from app.domain.startup import StartupWarning, WarningEffect


class Ending(StrEnum):
    """How far the engine came."""

    SERVED = "served"
    REFUSED = "refused at start-up"
    DIED = "died on the first request"


class EngineOutcome(BaseModel):
    """One case on one engine; ``resolved`` is its configuration, for comparison with target-only's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ending: Ending
    words: str = ""
    """Why it did not serve."""
    drafted: int | None = None
    accepted: int | None = None
    warnings: tuple[StartupWarning, ...] = ()
    problems: tuple[str, ...] = ()
    """What the server did otherwise than its arm asked."""
    resolved: dict[str, str] = {}
    startup_s: float | None = None

    @property
    def failing_warnings(self) -> tuple[StartupWarning, ...]:
        """Those that no comparison may rest on."""
        return tuple(w for w in self.warnings if w.effect is WarningEffect.FAILS_PREFLIGHT)


_RECORDS: TypeAdapter[dict[str, EngineOutcome]] = TypeAdapter(dict[str, EngineOutcome])


class Records:
    """The outcomes of one runtime by the digest of their case, in ``directory/<runtime digest>.json``."""

    def __init__(self, directory: Path, runtime_digest: str, *, fresh: bool = False) -> None:
        self._path = directory / f"{runtime_digest}.json"
        self._found = self._read()
        self._stale = set(self._found) if fresh else set[str]()

    def get(self, case_digest: str) -> EngineOutcome | None:
        """What this engine did with the case, if it was asked before (with ``fresh``: since this was opened)."""
        return None if case_digest in self._stale else self._found.get(case_digest)

    def put(self, case_digest: str, outcome: EngineOutcome) -> None:
        """Keep an outcome; the file appears whole."""
        self._found[case_digest] = outcome
        self._stale.discard(case_digest)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        whole = self._path.with_suffix(".new")
        whole.write_bytes(_RECORDS.dump_json(self._found, indent=1))
        whole.replace(self._path)

    def _read(self) -> dict[str, EngineOutcome]:
        try:
            return _RECORDS.validate_json(self._path.read_bytes())
        except (FileNotFoundError, ValidationError):
            return {}  # none yet, or written by another version of this product: the engine is asked again
