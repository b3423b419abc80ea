"""What must become of a block, whoever does what to it: the model beside the database."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

import psycopg
import pytest
from hypothesis.stateful import RuleBasedStateMachine
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.session import Database
from app.domain.lifecycle import AcceleratorState, BlockState
from app.domain.retry import may_retry
from app.domain.vocabulary import FailureClass
from app.leases.repository import Fenced
from tests.conftest import libpq_url

T = TypeVar("T")


@dataclass(frozen=True)
class Token:
    """What a holder shows when it writes."""

    id: UUID
    fence: int


@dataclass
class Expected:
    """What the model thinks of one block."""

    experiment: str
    needs: int
    state: BlockState = BlockState.QUEUED
    fence: int = 0
    attempt: int = 0
    expired: bool = False
    waits: bool = False
    canceled: bool = False
    host: str = ""
    has: set[str] = field(default_factory=set[str])

    def end(self, state: BlockState) -> None:
        self.state, self.expired, self.host, self.has = state, False, "", set()

    def interrupt(self, failure_class: FailureClass, *, tried: bool) -> None:
        if self.canceled:
            self.end(BlockState.CANCELED)
        elif tried and not may_retry(failure_class, self.attempt):
            self.end(BlockState.FAILED)
        else:
            self.end(BlockState.QUEUED)
            self.attempt -= not tried


class World(RuleBasedStateMachine):
    """The database, the model and what holders have in hand; ``url`` is set by the test.

    ``seen`` is the newest state of each row, of which nothing terminal may change.
    """

    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.database = Database(self.url)
        self.direct = psycopg.connect(libpq_url(self.url), autocommit=True)
        self.blocks: dict[UUID, Expected] = {}
        self.places: dict[str, AcceleratorState] = {}
        self.tokens: list[Token] = []
        self.sessions: list[tuple[Token, UUID]] = []
        self.runs: list[tuple[Token, UUID]] = []
        self.seen: dict[str, str] = {}

    def teardown(self) -> None:
        self.runner.run(self.database.dispose())
        self.runner.close()
        self.direct.close()

    def do(self, work: Callable[[AsyncSession], Awaitable[T]]) -> T:
        """One transaction, to its end."""

        async def transact() -> T:
            async with self.database.transaction() as session:
                return await work(session)

        return self.runner.run(transact())

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        cursor = self.direct.execute(sql.encode(), values)
        return cursor.fetchall() if cursor.description else []

    def writes(self, token: Token, work: Callable[[AsyncSession], Awaitable[T]]) -> T | None:
        """``work`` if the block is still this holder's; else it must be fenced."""
        if self.leased(token) is not None:
            return self.do(work)
        with pytest.raises(Fenced):
            self.do(work)
        return None

    def leased(self, token: Token) -> Expected | None:
        block = self.blocks[token.id]
        return block if (block.state, block.fence) == (BlockState.LEASED, token.fence) else None
