"""``make bench-verification``: seeded defects before real servers, clean comparisons, and what the phase costs."""

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console

from app.domain.manifest import Sampling
from app.domain.verified import VERIFIED_BLOCKS, VerificationRecord
from app.domain.vocabulary import BASELINE_ARM, NS_PER_S
from app.settings import Settings
from benchmarks.replay.table import write_section
from benchmarks.verification import greedy, sampled
from benchmarks.verification.examining import Examined, Reference, asking
from benchmarks.verification.greedy import Pair
from benchmarks.verification.rows import Part, Row
from benchmarks.verification.sampled import Sampler
from benchmarks.verification.serving import Site, demo_site, on_the_fake, serving
from tests.fakes.defects import Defect
from worker.engine.server import VllmServer
from worker.replay.process import ReplayClient
from worker.verification.choosing import choose
from worker.verification.phase import verify_greedily

T = TypeVar("T")
ARMS = ("ngram-k4", "draft-k4")
RATES_RPS = (2.0, 8.0)
DEMO_BLOCKS = 5
COST_MAX = 0.25
FAKE_POSITION = 4


class Answers(StrEnum):
    """What a run of the bench is about; each has its own section in a document."""

    GREEDY = "greedy"
    SAMPLED = "sampled"


@dataclass(frozen=True, slots=True)
class Size:
    """How much is asked."""

    comparisons: int
    seeds: int
    prompts: int
    samples: int
    temperature: float
    position: int
    """Of the swapped token."""


@dataclass(frozen=True, slots=True)
class House:
    """Two target-only servers and one of each arm, all up."""

    site: Site
    client: ReplayClient
    targets: tuple[VllmServer, VllmServer]
    arms: tuple[VllmServer, ...]
    say: Console


def main(
    *,
    comparisons: Annotated[int, typer.Option(help="Clean comparisons, of each kind.")] = 200,
    seeds: Annotated[int, typer.Option(help="Repeats of a random defect.")] = 6,
    prompts: Annotated[int, typer.Option(help="Prompts under each greedy defect.")] = 12,
    samples: Annotated[int, typer.Option(help="Samples of each prompt in a pool; comparisons take half.")] = 192,
    temperature: Annotated[float, typer.Option(help="At which is sampled.")] = 1.0,
    only: Annotated[Answers | None, typer.Option(help="Greedy or sampled answers alone.")] = None,
    fake: Annotated[bool, typer.Option("--fake", help="A fake engine, for a look: greedy only.")] = False,
    markdown: Annotated[Path | None, typer.Option(help="A document whose marked sections are replaced.")] = None,
) -> None:
    """Exits with 1 if a row misses its bar; it is marked SHORT."""
    console = Console(width=200)
    position = FAKE_POSITION if fake else Defect().position
    size = Size(comparisons, seeds, prompts, samples, temperature, position)
    with tempfile.TemporaryDirectory(prefix="vd-") as directory:
        settings = on_the_fake(Settings(), Path(directory)) if fake else Settings()
        # a fake engine cannot score what others sampled
        asked = [one for one in Answers if only in {None, one} and not (fake and one is Answers.SAMPLED)]
        found = asyncio.run(_measure(demo_site(settings, RATES_RPS), size, console, asked))
    for one, parts in found.items():
        if markdown is not None:
            write_section(markdown, "\n".join(part.markdown() for part in parts), mark=f"bench-verification {one}")
    sys.exit(any(row.met is False for parts in found.values() for part in parts for row in part.rows))


async def _measure(site: Site, size: Size, console: Console, asked: list[Answers]) -> dict[Answers, list[Part]]:
    """Each part is shown as soon as it is known."""
    found: dict[Answers, list[Part]] = {}
    measures = {Answers.GREEDY: _greedy_parts, Answers.SAMPLED: _sampled_parts}
    async with _house(site, console) as house:
        for one in asked:
            found[one] = await measures[one](house, size)
            for part in found[one]:
                console.print(part.terminal())
    return found


@asynccontextmanager
async def _house(site: Site, console: Console) -> AsyncGenerator[House]:
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(ReplayClient())
        servers: list[VllmServer] = []
        for arm in (BASELINE_ARM, BASELINE_ARM, *ARMS):
            servers.append(await stack.enter_async_context(serving(site, arm)))
            console.print(f"{arm} is up after {servers[-1].startup_ns / NS_PER_S:.0f} s")
        yield House(site, client, (servers[0], servers[1]), tuple(servers[2:]), console)


async def _timed(asking: Awaitable[T]) -> tuple[T, float]:
    started = time.monotonic()
    return await asking, time.monotonic() - started


async def _greedy_parts(house: House, size: Size) -> list[Part]:
    site = house.site
    prompts = choose(site.traces, site.manifest.schedule_seed).prompts
    records: list[VerificationRecord] = []
    seconds: dict[str, float] = {}
    clean: dict[str, Examined] = {}
    for target in house.targets:
        with asking(house.client, target.spec, site.manifest.sampling) as asked:
            record, seconds[BASELINE_ARM] = await _timed(verify_greedily(asked, prompts))
            records.append(record)
    rows: list[Row] = []
    for name, server, target, theirs in zip(ARMS, house.arms, house.targets, records, strict=True):
        with asking(house.client, target.spec, site.manifest.sampling) as asked:
            pair = Pair(site, house.client, Reference(site.manifest, name, prompts, asked, theirs), server)
            (clean[name], _), seconds[name] = await _timed(pair.examined(Defect()))
            rows.append(greedy.clean_row(f"{name} through a proxy without a defect", clean[name]))
            rows += await _spoilt(house, name, server, target, size)
    return [
        Part("Greedy defects, each through a proxy before the engine", rows),
        Part("Clean greedy comparisons", _alarms(house, records, clean, size.comparisons)),
        Part("What the phase costs", [_cost(house, seconds, clean)]),
    ]


async def _spoilt(house: House, name: str, server: VllmServer, target: VllmServer, size: Size) -> list[Row]:
    """The defects, on answers that are long enough for them."""
    site = house.site
    with asking(house.client, target.spec, site.manifest.sampling) as asked:
        requests = site.traces["edit"].of_load("near-saturation")[: 3 * size.prompts]
        prompts = await greedy.long_and_stopped(asked, requests, size.prompts)
        theirs = await verify_greedily(asked, prompts)
        reference = Reference(site.manifest, name, prompts, asked, theirs)
        rows: list[Row] = []
        async for row in greedy.defect_rows(Pair(site, house.client, reference, server), size.position, size.seeds):
            house.say.print(" · ".join(row.cells))  # what was found shall survive a run that is stopped
            rows.append(row)
        return rows


def _alarms(house: House, records: list[VerificationRecord], clean: dict[str, Examined], count: int) -> list[Row]:
    one, other = records
    manifest = house.site.manifest
    rows: list[Row] = []
    for name, found in clean.items():
        blocks = [{BASELINE_ARM: one, name: found.record}, {BASELINE_ARM: other, name: found.record}]
        words = f"{name} and target-only"
        rows.append(greedy.alarm_row(manifest, name, words, blocks=blocks, again=found.again, comparisons=count))
    swapped = [{BASELINE_ARM: one, ARMS[0]: other}, {BASELINE_ARM: other, ARMS[0]: one}]
    words = "target-only and target-only"
    return [*rows, greedy.alarm_row(manifest, ARMS[0], words, blocks=swapped, again={}, comparisons=count)]


def _cost(house: House, seconds: dict[str, float], clean: dict[str, Examined]) -> Row:
    """Of the demo: its phase in the first blocks, against all sessions without what they spend beside runs."""
    servers = {BASELINE_ARM: house.targets[0], **dict(zip(ARMS, house.arms, strict=True))}
    runs_s = sum(load.duration_s for load in house.site.loads) * len(house.site.traces)
    session_s = {arm: server.startup_ns / NS_PER_S + runs_s for arm, server in servers.items()}
    added = VERIFIED_BLOCKS * sum(seconds.values()) / (DEMO_BLOCKS * sum(session_s.values()))
    phase = ", ".join(f"{arm} {seconds[arm]:.0f} s of a session of {session_s[arm]:.0f} s" for arm in servers)
    prompts = max(found.correctness.compared for found in clean.values())
    words = f"{added:.1%} of the demo ({prompts} prompts, {VERIFIED_BLOCKS} of {DEMO_BLOCKS} blocks: {phase})"
    return Row("seconds of the phase / seconds of the sessions", words, f"<= {COST_MAX:.0%}", added <= COST_MAX)


async def _sampled_parts(house: House, size: Size) -> list[Part]:
    site = house.site
    requests = site.traces["open"].of_load("near-saturation")[: sampled.PROMPTS]
    sampling = Sampling(temperature=size.temperature)
    sampler = Sampler(site, house.client, sampling, {"open": requests}, size.samples, house.say)
    pools, stated = await sampler.pools(*house.targets, house.arms[0])
    house.say.print("sampled answers are in")
    known = sampled.known_of(pools, stated, size.samples // 2)
    rows = sampled.alarm_rows(known, pools, size.comparisons)
    rows += sampled.power_rows(known, pools, size.comparisons // 4)
    title = f"Sampling at temperature {size.temperature:g}, target-only on both sides"
    return [Part(title, [*rows, sampled.as_it_is_row(known, ARMS[0], pools)])]


if __name__ == "__main__":
    typer.run(main)
