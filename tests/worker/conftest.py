"""A place to conduct experiments in, from which no engine may be left."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.db.session import Database
from app.settings import Settings
from tests.worker.conduct import Place, PlaceMaker, make_place
from worker.engine.containment import TAG_VARIABLE


@pytest.fixture
async def place(settings: Settings, database: Database, tmp_path: Path) -> AsyncIterator[PlaceMaker]:
    """Makes the test's place; afterwards no tagged engine may be left."""

    def make(**dials: Any) -> Place:
        return make_place(settings, database, tmp_path, **dials)

    yield make
    assert not tagged_processes()


def tagged_processes() -> list[int]:
    """Engines whose supervisor is this process."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            environment = (entry / "environ").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if TAG_VARIABLE.encode() in environment and f"VERDRAFT_SUPERVISOR={os.getpid()}:".encode() in environment:
            found.append(int(entry.name))
    return found
