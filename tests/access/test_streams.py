"""An event stream ends with the credential that opened it, and one client cannot take them all."""

import pytest

from app.access.schemas import TokenWish
from app.access.service import AccessService
from app.db.acting import acting_as
from app.db.session import Database
from app.errors import TooManyStreams, headers_of
from app.evidence.repository import EvidenceRepository
from app.experiments.events import Streams
from app.experiments.repository import ExperimentRepository
from tests.factories import make_manifest, make_trace


async def test_a_revoked_token_is_told_nothing_more(database: Database) -> None:
    access, digest = AccessService(database), make_manifest().digest
    async with database.transaction() as session:
        await EvidenceRepository(session).store_trace(make_trace())
        await ExperimentRepository(session).add(make_manifest())
    made = await access.create_token(TokenWish(name="watcher"))
    with acting_as(await access.bearer(made.token)):
        stream = Streams(database, stream_s=5, look_again_s=0).follow(digest)
        assert (await anext(stream))["event"] == "change"
        await access.revoke(made.id)
        async with database.transaction() as session:
            await ExperimentRepository(session).cancel(digest)
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


async def test_one_client_cannot_take_every_stream(database: Database) -> None:
    streams = Streams(database, limit=10, of_one_client=1)
    first = streams.follow("0" * 64, "192.0.2.7")
    with pytest.raises(TooManyStreams) as refused:
        streams.follow("0" * 64, "192.0.2.7")
    assert int(headers_of(refused.value)["Retry-After"]) >= 1
    assert streams.follow("0" * 64, "192.0.2.8") is not first
