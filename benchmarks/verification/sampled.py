"""Sampled answers of the demo's servers: the defects that only sampling shows, and how often clean servers are accused.

Both sides are target-only servers, one of them behind the proxy: what an arm really does is a row of its own.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Console

from app.domain.greedy import Prompt
from app.domain.sampled_places import Fit, stated
from app.domain.sampling_equality import FAMILY_ERROR, SampledEquality
from app.domain.sampling_tests import Sample, Samples, Stated
from app.domain.serving import Sampling
from app.domain.verified import VerificationMode, VerificationRecord, VerifiedAnswer
from benchmarks.verification.examining import asking
from benchmarks.verification.pools import Found, Known, as_they_are, compared, exchanged, part, repeated
from benchmarks.verification.rows import Row, alarms, caught
from benchmarks.verification.serving import Site, spoilt
from tests.fakes.defects import Defect, Kind
from worker.engine.server import VllmServer
from worker.replay.process import ReplayClient
from worker.verification.asking import Prompts
from worker.verification.sampled import PROMPTS, Said, Scorer, sample

POWER = 0.9
__all__ = ["PROMPTS", "Sampler", "alarm_rows", "as_it_is_row", "known_of", "power_rows"]
SPOILT = {
    "temperature 5% higher": Defect(Kind.TEMPERATURE_SHIFTED),
    "draft argmax taken in 10% of answers": Defect(Kind.ARGMAX_ACCEPTED, chance=0.1, seed=1),
    "draft argmax taken in 5% of answers": Defect(Kind.ARGMAX_ACCEPTED, chance=0.05, seed=2),
}
SOUND, OTHER, HOTTER, AS_IT_IS = "target-only", "target-only, another process", "hotter", "as it is"


@dataclass(frozen=True, slots=True)
class Sampler:
    """Servers that are up, and what they are asked."""

    site: Site
    client: ReplayClient
    sampling: Sampling
    prompts: Prompts
    samples: int
    """Of each prompt in a pool; a comparison takes half of them by each side."""
    say: Console

    async def pools(self, one: VllmServer, other: VllmServer, arm: VllmServer) -> tuple[dict[str, Samples], Stated]:
        """Every pool, all scored by ``one``."""
        said = {SOUND: await self._said(one, SOUND), OTHER: await self._said(other, OTHER)}
        said[HOTTER] = await self._said(one, HOTTER, VerificationMode.SAMPLED_HOTTER)
        said[AS_IT_IS] = await self._said(arm, AS_IT_IS)
        for name, defect in SPOILT.items():
            async with spoilt(self.site, other.spec, defect) as (seen, _):
                with asking(self.client, seen, self.sampling) as asked:
                    said[name] = await sample(
                        asked, self.prompts, VerificationMode.SAMPLED, seeds=name, samples=self.samples
                    )
        with asking(self.client, one.spec, self.sampling) as asked:
            every = [Said(name, answer) for name, answers in said.items() for answer in answers if not answer.error]
            scores = await Scorer(asked).score(self.prompts, every)
        for what, why in scores.left_out.items():
            self.say.print(f"{what}: {why}")
        return {name: _samples(name, answers, scores) for name, answers in said.items()}, self._stated(scores)

    async def _said(
        self, server: VllmServer, name: str, mode: VerificationMode = VerificationMode.SAMPLED
    ) -> tuple[VerifiedAnswer, ...]:
        with asking(self.client, server.spec, self.sampling) as asked:
            return await sample(asked, self.prompts, mode, seeds=name, samples=self.samples)

    def _stated(self, scores: VerificationRecord) -> Stated:
        places = {
            Prompt(choice.workload, choice.request_id): stated(choice.alternatives, self.sampling, raw_logits=False)
            for choice in scores.choices
        }
        return {prompt: place for prompt, place in places.items() if place and len(place) > 1}


def _samples(name: str, answers: tuple[VerifiedAnswer, ...], scores: VerificationRecord) -> Samples:
    fits = {
        (one.mode, one.workload, one.request_id, one.repeat): Fit(*(getattr(one, field) for field in Fit._fields))
        for one in scores.scored
        if one.arm == name
    }
    found: dict[Prompt, list[Sample]] = {}
    for a in (answer for answer in answers if not answer.error):
        fit = fits.get((a.mode, a.workload, a.request_id, a.repeat))
        found.setdefault(Prompt(a.workload, a.request_id), []).append(Sample(a.token_ids, a.finish_reason, fit))
    return found


def known_of(pools: Mapping[str, Samples], stated: Stated, samples: int) -> Known:
    """A control of as many samples as a comparison has: with more of them it would prove less of the comparison."""
    return Known(part(pools[HOTTER], samples, random.Random(0)), stated, samples)


def alarm_rows(known: Known, pools: Mapping[str, Samples], comparisons: int) -> list[Row]:
    """The answers of two processes: dealt anew, and each with its own."""
    one, other = pools[SOUND], pools[OTHER]
    half = comparisons // 2
    dealt = repeated(known, exchanged(known, one, other), half, seed=1)
    own = [repeated(known, as_they_are(known, *pair), half // 2, seed=2) for pair in ((one, other), (other, one))]
    every = Found((*dealt.equalities, *own[0].equalities, *own[1].equalities))
    rows = [alarms(f"sampling A/A, {_size(known)}: accused", every.failed, FAMILY_ERROR)]
    return [*rows, caught("sampling A/A: passed, the control having been rejected", every.passed, POWER)]


def power_rows(known: Known, pools: Mapping[str, Samples], comparisons: int) -> list[Row]:
    """Each defect against target-only, on other draws."""
    return [_power_row(known, name, pools, comparisons) for name in SPOILT]


def _power_row(known: Known, name: str, pools: Mapping[str, Samples], comparisons: int) -> Row:
    found = repeated(known, as_they_are(known, pools[name], pools[SOUND]), comparisons, seed=3)
    whole = compared(Known(pools[HOTTER], known.stated, 10**6), pools[name], pools[SOUND])
    tests = ", ".join(f"{test} {count}" for test, count in list(found.rejecting.items())[:3]) or "none"
    more = f"; by: {tests}; all answers at once: {describe(whole)}"
    if SPOILT[name].kind is Kind.TEMPERATURE_SHIFTED:
        more += f"; interval holds 1.05: {found.covers(1.05)}"
    return caught(f"{name}, {_size(known)}", found.failed, POWER, more)


def as_it_is_row(known: Known, arm: str, pools: Mapping[str, Samples]) -> Row:
    """What the arm really does; for information."""
    return Row(f"{arm} as the engine has it", describe(compared(known, pools[AS_IT_IS], pools[SOUND])))


def describe(found: SampledEquality) -> str:
    """The word, the temperature, and the smallest that would be seen."""
    least = min((test.p_adjusted for test in found.tests if test.p_adjusted is not None), default=None)
    ratio, seen = found.temperature_ratio, found.detectable_temperature
    words = f"{found.word}, least adjusted p {least:.1g}" if least is not None else str(found.word)
    if ratio is not None and found.temperature_low is not None and found.temperature_high is not None:
        words += f", temperature x {ratio:.3f} [{found.temperature_low:.3f}, {found.temperature_high:.3f}]"
    return words + (f", {seen:.3f} would be seen" if seen is not None else "")


def _size(known: Known) -> str:
    return f"{len(known.hotter)} prompts x {known.samples} samples"
