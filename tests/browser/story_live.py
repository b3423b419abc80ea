"""What a worker tells of a run under way, made up: for tests and pictures of the live page."""

from datetime import UTC, datetime

from app.db.notify import Live
from app.domain.live import LiveDevice, LiveLog, LivePicture, LivePoint, LiveRun

LOG = ("INFO \x1b[32mloading\x1b[0m <script>alert(1)</script>", "WARNING the cache is small")


def told_picture(finished: int, *, block: int = 0, gpu: str = "GPU-0000-<b>") -> Live:
    """The second arm's run after half a minute, with ``finished`` of 24 requests answered and one failed."""
    points = tuple(LivePoint(float(s), 3, s % 2, 40.0 * s if s % 7 else None, 0.6, 0.01 * s) for s in range(30))
    run = LiveRun(
        workload="tasks",
        load="low",
        attempt=1,
        requests=24,
        elapsed_s=29.5,
        finished=finished,
        failed=1,
        running=3,
        waiting=2,
        tokens_per_s=812.0,
        kv_cache_usage=0.31,
        ttft_ms=31.2,
        tpot_ms=5.25,
        drafted=4000,
        acceptance=0.62,
        by_position=(0.81, 0.66, 0.52, 0.41),
        history=points,
    )
    device = LiveDevice(name=gpu, utilization_perc=87, memory_used_bytes=61e9, power_w=512, temperature_c=61)
    told = LivePicture(
        block=block,
        arm="ngram-k4",
        at=datetime.now(UTC),
        run=run,
        devices=(device,),
        engine_rss_bytes=3.1e9,
        engine_cores=1.9,
    )
    return Live("live", told.model_dump_json())


def told_log(*lines: str, block: int = 0) -> Live:
    """The end of its engine's log."""
    return Live("log", LiveLog(block=block, arm="ngram-k4", lines=lines or LOG).model_dump_json())
