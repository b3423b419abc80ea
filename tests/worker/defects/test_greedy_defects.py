"""Every greedy defect is found by the phase and called a defect; without one nothing is found."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from app.domain.greedy import Answer, Prompt
from app.domain.greedy_classes import MismatchClass
from app.domain.trace_request import TraceRequest
from benchmarks.verification.examining import Examined, Reference, asking
from benchmarks.verification.serving import Site, serving, spoilt
from tests.fakes.defects import Defect, Kind
from worker.replay.process import ReplayClient
from worker.verification.diagnosis import answers_of
from worker.verification.phase import verify_greedily

pytestmark = pytest.mark.asyncio(loop_scope="module")
ARM = "ngram-k4"
REQUESTS = 5

Examine = Callable[[Defect], Awaitable[Examined]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def examine(site: Site) -> AsyncIterator[Examine]:
    """The product's phase and diagnosis on an arm with a defect, of requests that stop at a string of their own."""
    async with ReplayClient() as client, serving(site, "target-only") as target, serving(site, ARM) as arm:
        with asking(client, target.spec, site.manifest.sampling) as asked:
            plain = {"edit": site.traces["edit"].of_load("latency")[:REQUESTS]}
            said = answers_of([await verify_greedily(asked, plain)])
            prompts = {"edit": tuple(stopped(request, said) for request in plain["edit"])}
            reference = Reference(site.manifest, ARM, prompts, asked, await verify_greedily(asked, prompts))

            async def examine(defect: Defect) -> Examined:
                async with spoilt(site, arm.spec, defect) as (seen, _):
                    with asking(client, seen, site.manifest.sampling) as ours:
                        return await reference.examine(ours)

            yield examine


def stopped(request: TraceRequest, said: dict[Prompt, set[Answer]]) -> TraceRequest:
    """The request with a stop string from the middle of its answer."""
    (answer,) = said[Prompt("edit", request.request_id)]
    middle = len(answer.text) // 2
    return request.model_copy(update={"stop": (answer.text[middle : middle + 3],)})


async def test_without_a_defect_nothing_differs(examine: Examine) -> None:
    found = await examine(Defect())
    assert (found.correctness.compared, found.correctness.mismatched, found.correctness.broken) == (REQUESTS, 0, ())


@pytest.mark.parametrize(
    "defect",
    [
        Defect(Kind.TOKEN_SWAPPED, position=0),
        Defect(Kind.TOKEN_SWAPPED, position=0, only_concurrent=True),
        Defect(Kind.TOKEN_SWAPPED, position=0, chance=0.3, seed=1),
        Defect(Kind.STOP_LEAKED),
        Defect(Kind.LAST_DROPPED),
        Defect(Kind.FINISH_CHANGED),
    ],
    ids=lambda defect: f"{defect.kind}{' beside others' * defect.only_concurrent}{' at times' * (defect.chance < 1)}",
)
async def test_a_defect_is_found_and_called_one(examine: Examine, defect: Defect) -> None:
    found = await examine(defect)
    assert found.correctness.classes.keys() == {MismatchClass.SPEC_DEFECT}
    assert "are defects" in found.correctness.broken[0]
    every = defect.chance == 1 and not defect.only_concurrent
    assert found.defects == REQUESTS if every else found.defects > 0


@pytest.mark.parametrize("kind", [Kind.ARGMAX_ACCEPTED, Kind.TEMPERATURE_SHIFTED])
async def test_a_defect_of_sampling_is_none_of_greedy_answers(examine: Examine, kind: Kind) -> None:
    assert (await examine(Defect(kind))).correctness.mismatched == 0
