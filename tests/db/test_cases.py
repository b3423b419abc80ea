"""Cases say what the domain says of each observation, and pages of them hold each case once in every order."""

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from app.cases.filling.background import Fillings
from app.cases.query import CaseQuery, Sort
from app.cases.schemas import CaseRead
from app.cases.service import CaseService
from app.db.partitions import drop_partitions
from app.domain.errors import EvidenceRefused, NotFound
from app.domain.evidence import Failure
from app.domain.latency import e2e_ns, lateness_ns, output_tokens, tpot_ns, ttft_ns
from app.domain.lifecycle import BlockState, RunState
from app.domain.observation import RequestObservation
from app.domain.vocabulary import FailureClass, Outcome
from app.evidence.repository import EvidenceRepository
from app.experiments.repository import ExperimentRepository
from app.settings import Settings
from tests.db.conftest import PATH, Bench
from tests.factories import SPECULATION, make_manifest, make_observation, make_trace

REQUESTS = 40
BLOCKS = 2
ARMS = ("target-only", "ngram-k4")
NS_PER_MS = 1_000_000


@dataclass(frozen=True)
class World:
    """An experiment with its observations by block and arm."""

    digest: str
    seen: dict[tuple[int, str], list[RequestObservation]]
    cases: CaseService

    async def all(self, limit: int = 1000, **asked: Any) -> list[CaseRead]:
        """Every page of what is asked for, ``limit`` to a page."""
        found: list[CaseRead] = []
        query = CaseQuery(**asked)
        while True:
            page = await self.cases.page(self.digest, query, limit)
            found += page.items
            if page.next_cursor is None:
                return found
            query = CaseQuery(**asked, after=page.next_cursor)


def observed(chance: random.Random, number: int) -> RequestObservation:
    """Few different times, so that there are ties; some fail, some have no counts."""
    outcome = chance.choice([Outcome.SUCCESS] * 4 + [Outcome.STREAM_ERROR, Outcome.NOT_SENT])
    due = number * 250 * NS_PER_MS
    first = due + chance.choice((20, 20, 30, 50)) * NS_PER_MS
    chunks = () if outcome is Outcome.NOT_SENT else (first, first + chance.choice((0, 30, 60)) * NS_PER_MS)
    tokens = chance.choice(((5, 6, 7, 8), (5, 6, 7, 9)))
    return make_observation(
        f"tasks-low-{number}",
        outcome=outcome,
        due_ns=due,
        sent_ns=None if outcome is Outcome.NOT_SENT else due + chance.choice((10_000, 20_000)),
        end_ns=chunks[-1] + 1 if chunks else None,
        chunk_ns=chunks,
        chunk_tokens=(1, 3) if chunks else (),
        token_ids=tokens if chunks else (),
        text=chance.choice(("abcd", "=1+1", "é\x00漢")),
        prompt_tokens=chance.choice((None, 3, 90)),
        completion_tokens=chance.choice((None, 1, 4)),
        speculation=chance.choice((None, SPECULATION, {**SPECULATION, "num_accepted_draft_tokens": 7})),
    )


async def play(bench: Bench, digest: str, seen: dict[tuple[int, str], list[RequestObservation]]) -> None:
    """One block: both arms, and a void run of target-only before its good one."""
    block = await bench.claim()
    assert block.experiment_id == digest
    for position, arm in enumerate(ARMS):
        session_id, void_run = await bench.start_run(block, arm, position)
        async with bench.runs() as runs:
            why = Failure(failure_class=FailureClass.GENERATOR_LIMITED, message="late")
            await runs.finish_run(void_run, block.fence, RunState.FAILED, failure=why, counters=None, summary=None)
            run_id = await runs.start_run(session_id, block.fence, "tasks", "low", 2)
        async with bench.database.transaction() as session:
            evidence = EvidenceRepository(session)
            await evidence.record_observations(void_run, block.fence, [make_observation("tasks-low-0", text="void")])
            await evidence.record_observations(run_id, block.fence, seen[block.index, arm])
        async with bench.runs() as runs:
            await runs.finish_run(
                run_id,
                block.fence,
                RunState.SUCCEEDED,
                failure=None,
                counters=None,
                summary=None,
            )
            for state in PATH[2:]:
                await runs.move_session(session_id, block.fence, state)
    await bench.finish(block, BlockState.SUCCEEDED)


@pytest.fixture
async def world(bench: Bench, settings: Settings) -> AsyncIterator[World]:
    trace = make_trace(requests=REQUESTS)
    manifest = make_manifest(traces={"tasks": trace.digest}, blocks=BLOCKS)
    async with bench.database.transaction() as session:
        await EvidenceRepository(session).store_trace(trace)
        await ExperimentRepository(session).add(manifest)
    chance = random.Random(11)
    seen = {(block, arm): [observed(chance, n) for n in range(REQUESTS)] for block in range(BLOCKS) for arm in ARMS}
    for _ in range(BLOCKS):
        await play(bench, manifest.digest, seen)
    fillings = Fillings()
    yield World(manifest.digest, seen, CaseService(bench.database, fillings, settings))
    await fillings.close()


async def test_a_case_says_what_the_domain_says(world: World) -> None:
    found = {(c.block - 1, c.arm, c.request_id): c for c in await world.all()}
    assert len(found) == BLOCKS * len(ARMS) * REQUESTS
    for (block, arm), seen in world.seen.items():
        for o, target in zip(seen, world.seen[block, "target-only"], strict=True):
            case = found[block, arm, o.request_id]
            assert (case.lateness_ns, case.ttft_ns, case.e2e_ns) == (lateness_ns(o), ttft_ns(o), e2e_ns(o))
            assert (case.tpot_ns, case.output_tokens, case.prompt_tokens) == (
                tpot_ns(o),
                output_tokens(o),
                o.prompt_tokens,
            )
            told = o.speculation
            assert case.acceptance == (told and told.num_accepted_draft_tokens / told.num_draft_tokens)
            assert (case.outcome, case.text, case.counted) == (o.outcome, o.text, True)
            ours, theirs = e2e_ns(o), e2e_ns(target)
            both = arm != "target-only" and ours is not None and theirs is not None
            assert case.ratio == (ours / theirs if both and ours and theirs else None)
            assert case.differs == (o.token_ids != target.token_ids if both else None)
            assert case.strata == [f"task={'copy' if int(o.request_id[10:]) % 2 == 0 else 'json'}"]


@pytest.mark.parametrize("sort", Sort)
@pytest.mark.parametrize("asked", [{}, {"outcome": "success", "stratum": "task=json"}], ids=["many", "few"])
async def test_pages_hold_each_case_once_and_in_order(world: World, sort: Sort, asked: dict[str, Any]) -> None:
    found = await world.all(limit=7, sort=sort, **asked)
    whole = await world.all(**asked)
    assert len(found) == len({(c.run_id, c.request_id) for c in found}) == len(whole)
    name = {"late": "lateness_ns", "tokens": "output_tokens", "prompt": "prompt_tokens", "request": "request_id"}
    column = name.get(sort.column, sort.column if sort.column in ("ratio", "acceptance") else f"{sort.column}_ns")
    keys = [getattr(c, column) for c in found]
    known = [key for key in keys if key is not None]
    assert keys == known + [None] * (len(keys) - len(known))
    assert all(a >= b if sort.down else a <= b for a, b in pairwise(known))


FILTERS = {
    "arm": ({"arm": "ngram-k4"}, lambda c: c.arm == "ngram-k4"),
    "block": ({"block": 2}, lambda c: c.block == 2),
    "outcome": ({"outcome": "stream_error"}, lambda c: c.outcome is Outcome.STREAM_ERROR),
    "stratum": ({"stratum": "task=copy"}, lambda c: c.strata == ["task=copy"]),
    "differs": ({"answer": "differs"}, lambda c: c.differs is True),
    "same": ({"answer": "same"}, lambda c: c.differs is False),
    "unscored": ({"score": "unscored"}, lambda c: c.score is None),
    "request": ({"request": "tasks-low-1"}, lambda c: c.request_id.startswith("tasks-low-1")),
    "request_": ({"request": "tasks_"}, lambda _: False),
    "text": ({"text": "é"}, lambda c: c.text.startswith("é")),
    "e2e": ({"e2e_min": 60}, lambda c: (c.e2e_ns or 0) >= 60 * NS_PER_MS),
    "late": ({"late_min": 0.02}, lambda c: (c.lateness_ns or 0) >= 20_000),
    "tokens": ({"tokens_min": 2, "tokens_max": 4}, lambda c: 2 <= c.output_tokens <= 4),
    "prompt": ({"prompt_min": 4}, lambda c: (c.prompt_tokens or 0) >= 4),
    "ratio": ({"ratio_min": 1.2, "arm": "ngram-k4"}, lambda c: (c.ratio or 0) >= 1.2),
    "together": (
        {"ratio_min": 1, "outcome": "success", "stratum": "task=json", "block": 1},
        lambda c: (c.ratio or 0) >= 1 and c.strata == ["task=json"] and c.block == 1,
    ),
}


@pytest.mark.parametrize("name", FILTERS)
async def test_a_filter_keeps_exactly_what_it_says_and_counts_it(world: World, name: str) -> None:
    asked, keeps = FILTERS[name]
    expected = {(c.run_id, c.request_id) for c in await world.all() if keeps(c)}
    page = await world.cases.page(world.digest, CaseQuery(**asked), 1)  # type: ignore[arg-type]
    assert {(c.run_id, c.request_id) for c in await world.all(limit=9, **asked)} == expected
    assert (page.total, page.total_is_bound) == (len(expected), False)


async def test_more_than_are_counted_is_a_bound(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.cases.repository.COUNTED_TO", 10)
    page = await world.cases.page(world.digest, CaseQuery(outcome=Outcome.SUCCESS), 5)
    assert (page.total, page.total_is_bound, len(page.items)) == (10, True, 5)
    found = await world.all(limit=5, outcome="success")
    assert len({(c.run_id, c.request_id) for c in found}) == len(found) > 10


async def test_void_runs_are_there_for_whoever_asks(world: World) -> None:
    left_out = await world.all(runs="left-out")
    assert [(c.text, c.counted, c.attempt) for c in left_out] == [("void", False, 1)] * 4
    assert len(await world.all(runs="any")) == len(await world.all()) + 4


async def test_what_is_not_there_is_refused_by_name(world: World) -> None:
    with pytest.raises(NotFound, match="arm: nobody"):
        await world.all(arm="nobody")
    with pytest.raises(NotFound, match="after: no page"):
        await world.cases.page(world.digest, CaseQuery(after="x~1"), 5)


async def test_cases_go_with_their_experiment(world: World, bench: Bench) -> None:
    assert await world.all()
    async with bench.database.transaction() as session:
        await drop_partitions(session, world.digest)


async def test_csv_rows_are_all_rows(world: World) -> None:
    rows = [case async for portion in world.cases.rows(world.digest, CaseQuery()) for case in portion]
    assert rows == await world.all()


async def test_an_impossible_time_is_no_number(bench: Bench, settings: Settings) -> None:
    """The report refuses such evidence; a case leaves the figure out."""
    digest = await bench.register(blocks=1)
    block = await bench.claim()
    session_id, run_id = await bench.start_run(block)
    wrong = make_observation(chunk_ns=(9, 5), due_ns=7)
    with pytest.raises(EvidenceRefused):
        e2e_ns(wrong)
    async with bench.database.transaction() as session:
        await EvidenceRepository(session).record_observations(run_id, block.fence, [wrong])
    await bench.finish_run(block, session_id, run_id)
    await bench.finish(block, BlockState.SUCCEEDED)
    page = await CaseService(bench.database, Fillings(), settings).page(digest, CaseQuery(), 5)
    assert [(c.e2e_ns, c.tpot_ns, c.ttft_ns) for c in page.items] == [(None, None, 2)]
