"""Random interleavings of everything that moves blocks and accelerators, beside a model of what must come of them."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from app.accelerators.repository import AcceleratorRepository
from app.db.session import Database
from app.domain.errors import NotFound
from app.domain.evidence import Failure
from app.domain.lifecycle import (
    BLOCK_MOVES,
    EXPERIMENT_MOVES,
    RUN_MOVES,
    SESSION_MOVES,
    AcceleratorState,
    BlockState,
    ExperimentState,
    RunState,
    SessionState,
    is_terminal,
)
from app.domain.retry import ATTEMPTS_MAX
from app.domain.vocabulary import FailureClass
from app.experiments.repository import ExperimentRepository
from app.leases.repository import Claimant, LeaseRepository
from app.runs.repository import SessionRepository
from tests.db.hosts import KIND, Host, register
from tests.db.lease_model import Expected, Token, World

HOSTS = {"a": ("gpu-0", "gpu-1", "gpu-2"), "b": ("gpu-0",)}
NEEDS = {"single": (1, 2), "pair": (2, 1)}
"""Experiment → accelerators that its blocks need, and how many blocks."""
FAILURES = [c for c in FailureClass if c not in {FailureClass.NOT_NEEDED, FailureClass.LOOK}]
"""What a worker may say of a block that it gives back; only looks find one not needed, or fail after it."""
ENDS = (BlockState.SUCCEEDED, BlockState.FAILED, BlockState.CANCELED)
PATH = (SessionState.WARMING, SessionState.MEASURING, SessionState.DRAINING, SessionState.SUCCEEDED)
RECENT = 5
"""Of older holders there is no more to learn."""


class Leases(World):
    """What may happen, in any order, and what holds after each step."""

    @initialize()
    def begin(self) -> None:
        """Everything as if it were new."""
        self.rows("DELETE FROM session")
        self.rows("UPDATE experiment SET state = 'QUEUED', finished_at = NULL")
        self.rows(
            "UPDATE block SET state = 'QUEUED', fence = 0, attempt = 0, cancel_requested = false, accelerators = '{}', "
            "not_before = NULL, lease_expires_at = NULL, started_at = NULL, finished_at = NULL"
        )
        self.rows("UPDATE accelerator SET state = 'FREE', block_id = NULL")
        blocks = self.rows("SELECT id, experiment_id, accelerator_count FROM block ORDER BY experiment_id, index")
        self.blocks = {block_id: Expected(digest, needs) for block_id, digest, needs in blocks}
        self.places = {f"{host}/{name}": AcceleratorState.FREE for host, names in HOSTS.items() for name in names}

    @rule(hidden=st.sampled_from(["", "gpu-0", "gpu-1"]))
    def claim_at_a(self, hidden: str) -> None:
        self.claim("a", hidden)

    @rule()
    def claim_twice_at_a(self) -> None:
        self.claim("a", "")
        self.claim("a", "")

    @rule()
    def claim_at_b(self) -> None:
        self.claim("b", "")

    def claim(self, host: str, hidden: str) -> None:
        idle = tuple(name for name in HOSTS[host] if name != hidden)
        block = self.do(lambda s: LeaseRepository(s).claim(Claimant(f"{host}:1", KIND, idle), 60))
        free = {f"{host}/{n}" for n in idle if self.places[f"{host}/{n}"] is AcceleratorState.FREE}
        waiting = [b for b in self.blocks.values() if b.state is BlockState.QUEUED and not b.waits]
        if block is None:
            assert not any(b.needs <= len(free) for b in waiting)
            return
        expected = self.blocks[block.id]
        assert expected in waiting
        assert set(block.addresses) <= free
        assert len(block.accelerators) == expected.needs
        expected.state, expected.host, expected.has = BlockState.LEASED, host, set(block.addresses)
        expected.fence, expected.attempt = expected.fence + 1, expected.attempt + 1
        self.places |= dict.fromkeys(block.addresses, AcceleratorState.LEASED)
        assert (block.fence, block.attempt) == (expected.fence, expected.attempt)
        self.tokens.append(Token(block.id, block.fence))

    def give_up(self, block: Expected) -> None:
        """Its accelerators are free again, those in quarantine apart."""
        self.places |= {p: AcceleratorState.FREE for p in block.has if self.places[p] is AcceleratorState.LEASED}

    @precondition(lambda self: self.tokens)
    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        token = data.draw(st.sampled_from(self.tokens[-RECENT:]))
        beat = self.do(lambda s: LeaseRepository(s).heartbeat(token.id, token.fence, 60))
        block = self.leased(token)
        assert (beat.held, beat.cancel_requested) == (block is not None, bool(block and block.canceled))
        if block is not None:
            block.expired = False

    @precondition(lambda self: self.tokens)
    @rule(data=st.data())
    def expire(self, data: st.DataObject) -> None:
        token = data.draw(st.sampled_from(self.tokens[-RECENT:]))
        if (block := self.leased(token)) is not None:
            self.rows("UPDATE block SET lease_expires_at = now() WHERE id = %s", token.id)
            block.expired = True

    @rule()
    def reap(self) -> None:
        expired = [b for b in self.blocks.values() if b.expired]
        assert self.do(lambda s: LeaseRepository(s).reap_expired()) == len(expired)
        for block in expired:
            self.give_up(block)
            block.interrupt(FailureClass.INFRA, tried=True)

    @rule(host=st.sampled_from(sorted(HOSTS)))
    def stop_host(self, host: str) -> None:
        of_host = [b for b in self.blocks.values() if b.host == host]
        assert self.do(lambda s: LeaseRepository(s).release(host)) == len(of_host)
        for block in of_host:
            self.give_up(block)
            block.interrupt(FailureClass.INFRA, tried=False)

    @precondition(lambda self: self.tokens)
    @rule(data=st.data(), failure_class=st.sampled_from(FAILURES), tried=st.booleans())
    def give_back(self, data: st.DataObject, failure_class: FailureClass, tried: bool) -> None:
        token, failure = (
            data.draw(st.sampled_from(self.tokens[-RECENT:])),
            Failure(failure_class=failure_class, message="so"),
        )
        block = self.leased(token)
        self.writes(token, lambda s: LeaseRepository(s).give_back(token.id, token.fence, failure, tried=tried))
        if block is not None:
            self.give_up(block)
            block.interrupt(failure_class, tried=tried)
            block.waits = tried and block.state is BlockState.QUEUED

    @precondition(lambda self: self.tokens)
    @rule(data=st.data(), state=st.sampled_from(ENDS))
    def finish(self, data: st.DataObject, state: BlockState) -> None:
        token = data.draw(st.sampled_from(self.tokens[-RECENT:]))
        block = self.leased(token)
        self.writes(token, lambda s: LeaseRepository(s).finish(token.id, token.fence, state, None))
        if block is not None:
            self.give_up(block)
            block.end(state)

    @rule()
    def let_time_pass(self) -> None:
        self.rows("UPDATE block SET not_before = now()")
        for block in self.blocks.values():
            block.waits = False

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        digest = data.draw(st.sampled_from(sorted({b.experiment for b in self.blocks.values()})))
        self.do(lambda s: ExperimentRepository(s).cancel(digest))
        for block in (b for b in self.blocks.values() if b.experiment == digest):
            if block.state is BlockState.QUEUED:
                block.end(BlockState.CANCELED)
            block.canceled = block.canceled or block.state is BlockState.LEASED

    @rule(data=st.data())
    def quarantine(self, data: st.DataObject) -> None:
        place = data.draw(st.sampled_from(sorted(self.places)))
        host, name = place.split("/")
        self.do(lambda s: AcceleratorRepository(s).quarantine(host, [name], "memory was left in it"))
        self.places[place] = AcceleratorState.QUARANTINED
        for block in self.blocks.values():
            block.has -= {place}

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        place = data.draw(st.sampled_from(sorted(self.places)))
        host, name = place.split("/")
        if self.places[place] is not AcceleratorState.QUARANTINED:
            with pytest.raises(NotFound):
                self.do(lambda s: AcceleratorRepository(s).release(host, name))
            return
        self.do(lambda s: AcceleratorRepository(s).release(host, name))
        self.places[place] = AcceleratorState.FREE

    @precondition(lambda self: self.tokens)
    @rule(data=st.data())
    def start_session(self, data: st.DataObject) -> None:
        token, position = data.draw(st.sampled_from(self.tokens[-RECENT:])), len(self.sessions)
        started = self.writes(
            token, lambda s: SessionRepository(s).start_session(token.id, token.fence, "ngram-k4", position)
        )
        self.sessions += [] if started is None else [(token, started)]

    @precondition(lambda self: self.sessions)
    @rule(data=st.data())
    def move_and_start_run(self, data: st.DataObject) -> None:
        token, session_id = data.draw(st.sampled_from(self.sessions[-RECENT:]))
        [(state,)] = self.rows("SELECT state FROM session WHERE id = %s", session_id)
        onward = next((s for s in PATH if s in SESSION_MOVES[SessionState(state)]), SessionState.FAILED)
        if not is_terminal(SESSION_MOVES, SessionState(state)):
            self.writes(token, lambda s: SessionRepository(s).move_session(session_id, token.fence, onward))
        load, run = f"load-{len(self.runs)}", SessionRepository.start_run
        started = self.writes(token, lambda s: run(SessionRepository(s), session_id, token.fence, "tasks", load))
        self.runs += [] if started is None else [(token, started)]

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), state=st.sampled_from([RunState.SUCCEEDED, RunState.FAILED, RunState.LOST]))
    def finish_run(self, data: st.DataObject, state: RunState) -> None:
        token, run_id = data.draw(st.sampled_from(self.runs[-RECENT:]))
        if self.rows("SELECT 1 FROM run WHERE id = %s AND state = 'MEASURING'", run_id) or self.leased(token) is None:
            facts: dict[str, Any] = {"failure": None, "counters": None, "summary": None}
            self.writes(token, lambda s: SessionRepository(s).finish_run(run_id, token.fence, state, **facts))

    @precondition(lambda self: self.tokens)
    @rule(data=st.data())
    def adopt(self, data: st.DataObject) -> None:
        token = data.draw(st.sampled_from(self.tokens[-RECENT:]))
        found = self.do(lambda s: SessionRepository(s).earlier(token.id, token.fence))
        self.writes(token, lambda s: SessionRepository(s).adopt(token.id, token.fence, [e.id for e in found]))

    @invariant()
    def blocks_are_as_the_model_has_them(self) -> None:
        columns = "id, state, fence, attempt, cancel_requested"
        for block_id, state, fence, attempt, canceled in self.rows(f"SELECT {columns} FROM block"):  # noqa: S608
            block = self.blocks[block_id]
            assert (state, fence, attempt, canceled) == (block.state, block.fence, block.attempt, block.canceled)
            assert 0 <= attempt <= ATTEMPTS_MAX
            writers = [t for t in self.tokens if t.id == block_id and self.leased(t) is not None]
            assert len(writers) == (state == BlockState.LEASED)
            assert not (canceled and state == BlockState.QUEUED)

    @invariant()
    def an_accelerator_has_one_block_and_a_block_all_of_one_host(self) -> None:
        has: dict[UUID, set[str]] = {}
        for place, state, block_id in self.rows("SELECT host || '/' || name, state, block_id FROM accelerator"):
            assert state == self.places[place]
            assert (block_id is not None) == (state == AcceleratorState.LEASED)
            if block_id is not None:
                has.setdefault(block_id, set()).add(place)
        for block_id, block in self.blocks.items():
            assert has.get(block_id, set()) == block.has
            assert len({place.split("/")[0] for place in block.has}) <= 1

    @invariant()
    def experiments_follow_their_blocks(self) -> None:
        for digest, state in self.rows("SELECT digest, state FROM experiment"):
            of_it = {b.state for b in self.blocks.values() if b.experiment == digest}
            begun = any(b.fence for b in self.blocks.values() if b.experiment == digest)
            if all(is_terminal(BLOCK_MOVES, s) for s in of_it):
                well = ExperimentState.FINISHED if BlockState.SUCCEEDED in of_it else ExperimentState.FAILED
                assert state == (ExperimentState.CANCELED if BlockState.CANCELED in of_it else well)
            else:
                assert state == (ExperimentState.RUNNING if begun else ExperimentState.QUEUED)

    @invariant()
    def what_has_ended_never_changes(self) -> None:
        tables = {"experiment": EXPERIMENT_MOVES, "block": BLOCK_MOVES, "session": SESSION_MOVES, "run": RUN_MOVES}
        for table, moves in tables.items():
            key = "digest" if table == "experiment" else "id"
            for name, state in self.rows(f"SELECT {key}::text, state FROM {table}"):  # noqa: S608
                before = self.seen.get(name)
                ends = {str(known) for known, targets in moves.items() if not targets}
                assert before not in ends or before == state
                self.seen[name] = state

    @invariant()
    def nothing_is_open_in_a_block_that_nobody_has(self) -> None:
        still_open = (
            "SELECT 1 FROM block b JOIN session s ON s.block_id = b.id LEFT JOIN run r ON r.session_id = s.id "
            "WHERE (b.state <> 'LEASED' OR s.fence <> b.fence) "
            "AND (s.state IN ('STARTING', 'WARMING', 'MEASURING', 'DRAINING') OR r.state = 'MEASURING')"
        )
        assert not self.rows(still_open)


BOUNDED = settings(
    max_examples=25,
    stateful_step_count=40,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.generate],  # each step waits for a database: shrinking would take minutes
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


async def prepare(url: str) -> None:
    """The experiments and hosts that every interleaving begins with."""
    database = Database(url)
    for name, (needs, blocks) in NEEDS.items():
        await register(database, name, needs=needs, blocks=blocks)
    for name, places in HOSTS.items():
        await Host(database, name, places).publish()
    await database.dispose()


def test_no_interleaving_breaks_a_lease(database_url: str) -> None:
    asyncio.run(prepare(database_url))
    Leases.url = database_url
    run_state_machine_as_test(Leases, settings=BOUNDED)
