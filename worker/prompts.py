"""Traces as a worker replays them: read from storage load by load, and joined with their prompts in privacy mode.

The texts of a privacy-mode trace are in one file on the worker's host, ``prompt_root/TRACE-DIGEST.jsonl``, beside the
project's key; nothing of them is stored, logged or sent anywhere but to the engine.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from app.domain.errors import TraceRefused
from app.domain.trace import TraceHeader, TraceRequest
from app.evidence.packing import StoredTrace
from app.workloads.privacy import ProjectKey, read_key, read_prompts, reveal
from app.workloads.record import Row

KEY_NAME = "project.key"


class ReplayTrace(Protocol):
    """What a block needs of a workload."""

    @property
    def header(self) -> TraceHeader: ...

    def of_load(self, load: str) -> tuple[TraceRequest, ...]:
        """The requests of one load point (or ``warmup``), in due order, as they are sent."""
        ...


@dataclass(frozen=True, slots=True)
class PrivateTrace:
    """A stored trace of keyed hashes, with the file and the key that restore its requests."""

    stored: StoredTrace
    prompt_file: Path
    key: ProjectKey

    @property
    def header(self) -> TraceHeader:
        """The first line."""
        return self.stored.header

    def of_load(self, load: str) -> tuple[TraceRequest, ...]:
        """The load's requests with their prompts. Raises ``DomainError`` where the file does not fit the trace."""
        requests = self.stored.of_load(load)
        wanted = {request.prompt_hash for request in requests}
        with self.prompt_file.open("rb") as lines:
            found = {signature: private for signature, private in read_prompts(lines, self.key) if signature in wanted}
        return tuple(_revealed(request, found, self.prompt_file) for request in requests)


def open_for_replay(stored: StoredTrace, digest: str, prompt_root: Path) -> ReplayTrace:
    """The trace, in privacy mode joined with its prompts. Raises ``DomainError`` where those are not here."""
    if stored.header.privacy is None:
        return stored
    prompt_file, key_file = prompt_root / f"{digest}.jsonl", prompt_root / KEY_NAME
    missing = [path.name for path in (prompt_file, key_file) if not path.is_file()]
    if missing:
        message = f"trace {digest[:12]} holds keyed hashes, and {' and '.join(missing)} are not on this worker's host"
        raise TraceRefused.of(
            "workloads", message, f"copy what the import wrote to {prompt_root}, readable by the worker"
        )
    return PrivateTrace(stored, prompt_file, read_key(key_file))


def _revealed(request: TraceRequest, found: dict[str, Row], prompt_file: Path) -> TraceRequest:
    if request.prompt_hash is None:
        return request
    if request.prompt_hash not in found:
        message = f"it has no prompt for request {request.request_id}"
        raise TraceRefused.of(prompt_file.name, message, "give the file that the import of this very trace wrote")
    return reveal(request, found[request.prompt_hash])
