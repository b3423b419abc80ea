"""Intervals of latencies, rates and their ratios, on simulated requests whose truth is known."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy import signal, stats

from app.domain.clustered import good_rate_limits, share_limits
from app.domain.statistics import CONFIDENCE, QUANTILES, Floats
from benchmarks.statistics.figures import Figure, Truths, coverage, false_words
from benchmarks.statistics.twins import (
    Interval,
    percentile_bootstrap,
    pooled_order_statistics,
    run_quantiles,
    t_interval,
)

REQUESTS: Final = 100
CHUNK: Final = 500
TRUTH_EXPERIMENTS: Final = 4000
RESAMPLES: Final = 300
OBJECTIVE: Final = 1.0
"""Log latency that a good request stays below: some nine in ten do."""
EFFECT: Final = 0.1


@dataclass(frozen=True, slots=True)
class World:
    """Every block replays the same requests; a session is one arm in one block. All deviations are of logarithms."""

    name: str
    noise: str = "lognormal"
    correlation: float = 0.0
    """Of one request's noise with the next one's: they share a queue."""
    block_sd: float = 0.05
    session_sd: float = 0.03
    session_tails: float | None = None
    """Degrees of freedom of Student's t; ``None`` for normal sessions."""
    drift: float = 0.0
    """From the middle of the experiment to its end."""


WORLDS: Final = (
    World("light tails"),
    World("heavy tails", noise="pareto", session_tails=3.0),
    World("drift", drift=0.1),
    World("correlated", correlation=0.95),
)
BUSY: Final = World("a busy host", correlation=0.95, session_sd=0.09)
"""The block log-ratios of the demo on two shared cores have a deviation of 13%."""


def figures(experiments: int, blocks: Sequence[int], seed: int) -> Iterator[Figure]:
    """Every interval in every world, and the rivals in theirs."""
    for world in WORLDS:
        for n in blocks:
            yield from _coverages(world, n, experiments, np.random.default_rng([seed, n]))
    yield from _a_a(experiments, np.random.default_rng([seed, 99]))


def draw(world: World, experiments: int, blocks: int, rng: np.random.Generator) -> Floats:
    """Log latencies: experiments x arms x blocks x requests. The second arm is faster by ``EFFECT``."""
    shape = (experiments, 2, blocks, REQUESTS)
    trace = 0.5 * np.random.default_rng(5).standard_normal(REQUESTS)
    tails = world.session_tails
    unit = rng.standard_normal(shape[:3]) if tails is None else stats.t.rvs(tails, size=shape[:3], random_state=rng)
    block = world.block_sd * rng.standard_normal((experiments, 1, blocks))
    block = block + world.drift * np.linspace(-1, 1, blocks)
    arm = np.array([0.0, -EFFECT])[:, None]
    return trace + (block + arm + world.session_sd * unit)[..., None] + _noise(world, shape, rng)


def _noise(world: World, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    fresh = rng.standard_normal(shape)
    if world.correlation:
        fresh[..., 1:] *= np.sqrt(1 - world.correlation**2)
        fresh = np.asarray(signal.lfilter([1.0], [1.0, -world.correlation], fresh, axis=-1))
    if world.noise == "pareto":
        return -stats.norm.logsf(fresh) / 2.5
    return 0.3 * fresh


def _coverages(world: World, blocks: int, experiments: int, rng: np.random.Generator) -> Iterator[Figure]:
    truth = {name: float(v.mean()) for name, v in _summaries(draw(world, TRUTH_EXPERIMENTS, blocks, rng)).items()}
    found: dict[str, list[Truths]] = {}
    for _ in range(max(experiments // CHUNK, 1)):
        sample = draw(world, CHUNK, blocks, rng)
        for name, interval in _intervals(sample, rng).items():
            found.setdefault(name, []).append(interval.covers(truth[name.partition(" by ")[0]]))
    where = f"{blocks} blocks, {world.name}"
    for name, covered in found.items():
        rival = " by " in name
        yield coverage(name, where, np.concatenate(covered), exact=not rival, rival=rival)


def _summaries(logs: Floats) -> dict[str, Floats]:
    """What each interval is of: its expectation is the truth."""
    quantiles = {name: run_quantiles(logs, q) for name, q in QUANTILES.items()}
    good = (logs[:, 0] < OBJECTIVE).sum(-1)
    ratios = {f"ratio of {name}": v[:, 0] - v[:, 1] for name, v in quantiles.items() if name != "p99"}
    return {
        "throughput, mean of blocks": _throughput(logs[:, 0]),
        **{f"{name}, typical run": v[:, 0] for name, v in quantiles.items()},
        "attainment": good / REQUESTS,
        "goodput": good / REQUESTS,
        **ratios,
        "ratio of throughputs": np.log(_throughput(logs[:, 1]) / _throughput(logs[:, 0])),
    }


def _intervals(logs: Floats, rng: np.random.Generator) -> dict[str, Interval]:
    values = _summaries(logs)
    good, of = values["attainment"] * REQUESTS, np.full(values["attainment"].shape, REQUESTS)
    ours = {name: t_interval(v) for name, v in values.items()}
    ours["attainment"] = Interval(*share_limits(good, of))
    ours["goodput"] = Interval(*good_rate_limits(good, of, np.ones(of.shape)))
    return ours | {
        "p50, typical run by order statistics of all": pooled_order_statistics(logs[:, 0], 0.5),
        "ratio of p50 by percentile bootstrap": percentile_bootstrap(values["ratio of p50"], RESAMPLES, rng),
    }


def _throughput(logs: Floats) -> Floats:
    return 1 / np.exp(logs).mean(-1)


def _a_a(experiments: int, rng: np.random.Generator) -> Iterator[Figure]:
    """Two arms that are the same: how often each rule says that they differ."""
    ours, ratios, requests = [], [], []
    for _ in range(max(experiments // CHUNK, 1)):
        logs = draw(BUSY, CHUNK, 5, rng) + np.array([0.0, EFFECT])[:, None, None]
        medians = run_quantiles(logs, 0.5)
        ours.append(~t_interval(medians[:, 0] - medians[:, 1]).covers(0.0))
        ratio = np.exp(logs[:, 0] - logs[:, 1]).reshape(CHUNK, -1)
        ratios.append(~_normal(ratio).covers(1.0))
        pooled = np.exp(logs).reshape(CHUNK, 2, -1)
        unpaired: Any = stats.ttest_ind(pooled[:, 0], pooled[:, 1], axis=-1)
        requests.append(np.asarray(unpaired.pvalue) < 1 - CONFIDENCE)
    where = f"5 blocks, {BUSY.name}, both arms the same"
    yield false_words("t of block log-ratios: differs", where, np.concatenate(ours), 0.05)
    yield false_words("mean of request ratios: differs", where, np.concatenate(ratios), 0.05, rival=True)
    yield false_words("unpaired t on requests: differs", where, np.concatenate(requests), 0.05, rival=True)


def _normal(values: Floats) -> Interval:
    half = 1.96 * values.std(-1, ddof=1) / np.sqrt(values.shape[-1])
    return Interval(values.mean(-1) - half, values.mean(-1) + half)
