"""Defects that only sampling shows, made large: how small a one is seen is for the bench to say."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest
import pytest_asyncio

from app.domain.manifest import Sampling
from app.domain.sampling_equality import SampledEquality, SamplingWord, judge_samples
from app.domain.sampling_tests import Sample, Samples
from app.domain.verified import VerificationMode
from benchmarks.verification.examining import asking
from benchmarks.verification.serving import Site, serving, spoilt
from tests.fakes.defects import Defect, Kind
from worker.replay.process import ReplayClient
from worker.verification.sampled import sample

pytestmark = pytest.mark.asyncio(loop_scope="module")
ARM = "ngram-k4"
PROMPTS, SAMPLES, TOKENS = 4, 24, 6

Judge = Callable[[Defect], Awaitable[SampledEquality]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def judge(site: Site) -> AsyncIterator[Judge]:
    """What is said of an arm with a defect, both sides asked by the product's phase."""
    prompts = {"open": site.traces["open"].of_load("latency")[:PROMPTS]}
    sampling = Sampling(temperature=0.7)

    async with ReplayClient() as client, serving(site, "target-only") as target, serving(site, ARM) as arm:

        async def samples(socket_path: str, seeds: str) -> Samples:
            with asking(client, replace(target.spec, socket_path=socket_path), sampling) as asked:
                answers = await sample(
                    asked, prompts, VerificationMode.SAMPLED, seeds=seeds, samples=SAMPLES, tokens=TOKENS
                )
            found: dict[str, list[Sample]] = {}
            for answer in answers:
                assert answer.error is None
                found.setdefault(answer.request_id, []).append(Sample(answer.token_ids, answer.finish_reason))
            return found

        theirs = await samples(target.socket_path, "target")

        async def judge(defect: Defect) -> SampledEquality:
            async with spoilt(site, arm.spec, defect) as (seen, _):
                return judge_samples({ARM: await samples(seen.socket_path, "arm")}, theirs)[0]

        yield judge


async def test_without_a_defect_nobody_is_accused(judge: Judge) -> None:
    found = await judge(Defect())
    assert found.word is not SamplingWord.FAIL
    assert (found.samples, found.target_samples) == (PROMPTS * SAMPLES, PROMPTS * SAMPLES)


@pytest.mark.parametrize(
    "defect", [Defect(Kind.TEMPERATURE_SHIFTED, factor=8.0), Defect(Kind.ARGMAX_ACCEPTED, chance=0.6)]
)
async def test_a_large_defect_is_accused_by_name(judge: Judge, defect: Defect) -> None:
    found = await judge(defect)
    assert found.word is SamplingWord.FAIL
    assert "are not distributed as target-only's" in found.reasons[0]


async def test_a_greedy_defect_is_seen_in_sampled_answers_too(judge: Judge) -> None:
    assert (await judge(Defect(Kind.TOKEN_SWAPPED, position=0))).word is SamplingWord.FAIL
