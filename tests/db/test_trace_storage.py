"""A stored trace's summary and first requests are read without its body."""

import pytest

from app.db.session import Database
from app.domain.errors import NotFound
from app.evidence.packing import pack_trace
from app.evidence.repository import EvidenceRepository
from app.evidence.views.repository import EvidenceViews
from tests.factories import make_trace


async def test_what_was_counted_is_kept_beside_the_trace(database: Database) -> None:
    trace = make_trace(requests=30, sampling={"top_k": 5})
    packed = pack_trace([trace.encode()])
    async with database.transaction() as session:
        assert await EvidenceRepository(session).store_packed(packed)
    async with database.reader() as session:
        views = EvidenceViews(session)
        assert await views.trace_summary(trace.digest) == packed.summary
        assert await views.first_requests(trace.digest, 2) == list(trace.requests[:2])
        stored = await EvidenceRepository(session).open_trace(trace.digest)
        assert tuple(stored.requests) == trace.requests


async def test_an_unknown_trace_has_neither(database: Database) -> None:
    async with database.reader() as session:
        for read in (
            EvidenceViews(session).trace_summary("0" * 64),
            EvidenceViews(session).first_requests("0" * 64, 1),
        ):
            with pytest.raises(NotFound):
                await read
