"""Puts a trace of any size straight into the service's database, from a host that may reach it.

The API takes 64 MiB at a time and no more than 512 MiB unpacked, because strangers may call it; whoever has the
database has no such limit. Memory holds the compressed trace and a few bytes a request.
"""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

from app import embedded
from app.db.session import Database
from app.domain.errors import DomainError
from app.evidence.packing import CHUNK_BYTES, PackedTrace, pack_trace
from app.evidence.repository import EvidenceRepository
from app.settings import Settings

Progress = Callable[[int], None]
"""Told how many bytes of the file have been read."""


def store_file(path: Path, settings: Settings, progress: Progress = lambda _: None) -> tuple[PackedTrace, bool]:
    """Check, pack and store a trace file; ``False`` if it was already there. Raises ``DomainError``."""
    url = database_url(settings)
    packed = pack_trace(_chunks(path, progress))
    return packed, asyncio.run(_store(url, packed))


def database_url(settings: Settings) -> str:
    """The service's database: the operator's, or the embedded one where it runs. Raises ``DomainError``."""
    if "database_url" in settings.model_fields_set:
        return settings.database_url.get_secret_value()
    if not embedded.postgres_runs(settings.home):
        message = f"the service of {settings.home} does not run"
        raise DomainError.of("database_url", message, "run `verdraft up`, or set VERDRAFT_DATABASE_URL")
    return embedded.start_postgres(settings.home)


async def _store(url: str, packed: PackedTrace) -> bool:
    database = Database(url, pooled=False)
    try:
        async with database.transaction() as session:
            return await EvidenceRepository(session).store_packed(packed)
    finally:
        await database.dispose()


def _chunks(path: Path, progress: Progress) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
            progress(file.tell())
