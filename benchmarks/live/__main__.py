"""What a second of live values costs the measured host, part by part, against a real Postgres on this host.

``python -m benchmarks.live``; exits with 1 where the worker spends more of a core than it may.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from app import embedded
from app.db.notify import Live, LiveSender, subscribe
from app.domain.vocabulary import NS_PER_S
from app.pages.live_routes import draw
from tests.conftest import new_database
from tests.factories import make_manifest
from tests.fakes.metrics import EngineMetrics
from worker.engine.scrape import Scrape
from worker.live import Following, LiveFeed, LiveSource
from worker.telemetry.names import FAST, OF_HOST, PROCESSES, SLOW
from worker.telemetry.newest import Newest
from worker.telemetry.recording import Group, Head, Writer

SHARE_MAX = 0.02
"""Of one core, for the worker."""
GPUS = 8
LOG_LINE = (
    "(EngineCore pid=4711) INFO 11-30 22:00:00 [loggers.py:257] Engine 000: Avg generation throughput: 812 tokens/s\n"
)
DIGEST = "a" * 64


def main() -> int:
    """Print a row for each part; 1 where the whole is too much."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live", description=__doc__)
    parser.add_argument("--seconds", type=int, default=600, help="of a run that are played, as fast as they go")
    asked = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="vd-"))
    try:
        url = new_database(embedded.start_postgres(home), "live")
        share = asyncio.run(_measure(url, home, asked.seconds))
    finally:
        embedded.stop(home)
        shutil.rmtree(home, ignore_errors=True)
    return 1 if share > SHARE_MAX else 0


async def _measure(url: str, home: Path, seconds: int) -> float:
    text = _exposition()
    log_path, telemetry_path = home / "engine.log", home / "telemetry.txt"
    log_path.write_text(LOG_LINE * 2000)
    feed = LiveFeed(LiveSource(0, "ngram-k4", log_path, telemetry_path), LiveSender(url, DIGEST))
    with telemetry_path.open("wb") as file:
        writer = _writer(file.fileno())
        scrapes: list[Scrape] = []
        newest, sent = Newest(telemetry_path), list[Live]()
        with feed.run(Following("tasks", "low", 1, 1000), scrapes):

            def play(second: int) -> None:
                _second(writer, scrapes, text, second)
                with log_path.open("a") as log:
                    log.write(LOG_LINE)

            made = await _timed(seconds, play, feed, newest, sent)
        told = await _telling(url, sent)
    drawn = _drawing(sent)
    sys.stdout.write(
        f"one second of live values with {GPUS} GPUs, a scrape of {len(text) / 1000:.0f} kB and a log that grows "
        f"({seconds} seconds played)\n"
        f"  read and written down by the worker   {made * 1000:6.2f} ms of its processor\n"
        f"  sent by the worker                    {told * 1000:6.2f} ms of its processor\n"
        f"  the worker in all                     {100 * (made + told):6.2f} % of a core "
        f"(at most {100 * SHARE_MAX:g} %)\n"
        f"  drawn by the web process              {drawn * 1000:6.2f} ms of its processor for each open page\n"
        f"  largest message                       {max(len(live.body.encode()) for live in sent):6d} bytes\n"
    )
    return made + told


async def _timed(seconds: int, play: Callable[[int], None], feed: LiveFeed, newest: Newest, sent: list[Live]) -> float:
    """Processor seconds of one picture and one end of a log."""
    spent = 0.0
    for second in range(seconds):
        play(second)
        began = time.process_time()
        sent += feed.messages(newest)
        spent += time.process_time() - began
        await asyncio.sleep(0)
    return spent / seconds


async def _telling(url: str, sent: list[Live]) -> float:
    """Processor seconds that sending one second's messages takes, with one page that listens."""
    sender, per_second = LiveSender(url, DIGEST), 1 + sum(live.kind == "log" for live in sent) / max(1, _pictures(sent))
    async with subscribe(url, live_of=DIGEST):
        await sender.send(sent[0])
        began = time.process_time()
        await _each(sent, sender.send)
        spent = time.process_time() - began
    await sender.close()
    return spent / len(sent) * per_second


async def _each(sent: list[Live], send: Callable[[Live], Awaitable[None]]) -> None:
    for live in sent:
        await send(live)


def _pictures(sent: list[Live]) -> int:
    return sum(live.kind == "live" for live in sent)


def _drawing(sent: list[Live]) -> float:
    manifest = make_manifest()
    began = time.process_time()
    for live in sent:
        draw({"event": live.kind, "data": live.body}, manifest)
    return (time.process_time() - began) / max(1, _pictures(sent))


def _second(writer: Writer, scrapes: list[Scrape], text: str, second: int) -> None:
    """What a second adds: a scrape, and what the sampler writes."""
    scrapes.append(Scrape(second * NS_PER_S, text))
    at_ns = second * NS_PER_S
    for gpu in range(GPUS):
        for tenth in range(10):
            writer.add(3 * gpu, at_ns + tenth * NS_PER_S // 10, dict.fromkeys(FAST, 512.5))
        for half in range(2):
            writer.add(3 * gpu + 1, at_ns + half * NS_PER_S // 2, dict.fromkeys(SLOW, 61.0))
            writer.add(3 * gpu + 2, at_ns + half * NS_PER_S // 2, dict.fromkeys(PROCESSES, 1.0))
    writer.add(3 * GPUS, at_ns, dict.fromkeys(OF_HOST, 1.25 * second))


def _writer(descriptor: int) -> Writer:
    groups = [Group(f"GPU-{gpu}", names) for gpu in range(GPUS) for names in (FAST, SLOW, PROCESSES)]
    return Writer(descriptor, Head(0, 0, (*groups, Group(None, OF_HOST))))


def _exposition() -> str:
    """As large as a real engine's: its histograms have some five hundred buckets."""
    metrics = EngineMetrics("target", 8)
    metrics.count_draft(8, 5)
    text = metrics.exposition().decode()
    buckets = [f'vllm:padding_seconds_bucket{{engine="0",le="{n}.0",model_name="target"}} {n}.0' for n in range(500)]
    return text + "\n".join(buckets) + "\n"


if __name__ == "__main__":
    sys.exit(main())
