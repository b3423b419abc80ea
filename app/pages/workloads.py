"""A workload as its page shows it: loads, sizes of strata, lengths and arrivals, and what to beware of."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.domain.trace_header import TraceHeader, TraceLoad
from app.domain.trace_request import TraceRequest
from app.domain.trace_summary import LoadSummary, TraceSummary
from app.domain.vocabulary import NS_PER_S, WARMUP
from app.workloads.assembly import STRATUM_MIN
from app.workloads.readers.conversations import text_of

BAR_WIDTH_MAX = 12.5
"""Percent of the plot: a single bar is a bar, not a wall."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a plot: where it stands and how high it is, in percent of the plot, and what it says."""

    x: float
    width: float
    height: float
    text: str


@dataclass(frozen=True, slots=True)
class Plot:
    """Bars over an axis whose two ends are ``low`` and ``high``; ``text`` says it all in words."""

    title: str
    text: str
    bars: tuple[Bar, ...]
    low: str
    high: str


@dataclass(frozen=True, slots=True)
class LoadView:
    """One load point, or the warm-up."""

    name: str
    offered: str
    counted: LoadSummary
    duration_s: float | None
    plots: tuple[Plot, ...]


@dataclass(frozen=True, slots=True)
class Stratum:
    """A label with its number of requests at each load; ``thin`` where a load has too few of them to say anything."""

    label: str
    sizes: tuple[int, ...]
    thin: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class WorkloadView:
    """Everything that the page shows of a trace, but for its requests."""

    summary: TraceSummary
    loads: tuple[LoadView, ...]
    dimensions: tuple[tuple[str, tuple[Stratum, ...]], ...]
    warnings: tuple[str, ...]

    @property
    def header(self) -> TraceHeader:
        """The trace's first line."""
        return self.summary.header


def workload_view(summary: TraceSummary, warnings: Sequence[str] = ()) -> WorkloadView:
    """The view of a trace; ``warnings`` are those of the import that made it, if it was made just now."""
    loads = tuple(_load(name, counted, summary.header.load(name)) for name, counted in summary.loads.items())
    measured = [load.name for load in loads if load.name != WARMUP]
    said = (*_warnings(summary), *(words for words in warnings if ": stratum " not in words))  # those are counted
    return WorkloadView(summary, loads, tuple(_dimensions(summary, measured)), said)


def _load(name: str, counted: LoadSummary, stated: TraceLoad | None) -> LoadView:
    duration_s = stated.duration_ns / NS_PER_S if stated and stated.duration_ns else None
    offered = stated.offered if stated else "before each measurement, never counted"
    return LoadView(name, offered, counted, duration_s, tuple(_plots(name, counted, duration_s)))


def _plots(name: str, counted: LoadSummary, duration_s: float | None) -> Iterator[Plot]:
    if duration_s is not None and counted.arrivals:
        yield _arrivals(name, counted.arrivals, duration_s)
    for title, lengths in (("prompt", counted.input_lengths), ("max_tokens", counted.output_limits)):
        if lengths:
            yield _lengths(name, title, lengths)


def _arrivals(name: str, arrivals: Sequence[int], duration_s: float) -> Plot:
    each_s = duration_s / len(arrivals)
    labels = [f"{i * each_s:.3g}–{(i + 1) * each_s:.3g} s: {n} requests" for i, n in enumerate(arrivals)]  # noqa: RUF001
    text = f"Arrivals of {name}: at most {max(arrivals)} and at least {min(arrivals)} requests in each {each_s:.3g} s"
    return Plot("Arrivals", text, _bars(arrivals, labels), "0 s", f"{duration_s:.4g} s")


def _lengths(name: str, title: str, lengths: dict[int, int]) -> Plot:
    edges = [1 << power for power in range(min(lengths).bit_length() - 1, max(lengths).bit_length())]
    sizes = [lengths.get(edge, 0) for edge in edges]
    labels = [f"{edge // 2 + 1 if edge > 1 else 0}–{edge} tokens: {n} requests" for edge, n in zip(edges, sizes)]  # noqa: RUF001, B905
    most = labels[sizes.index(max(sizes))]
    words = "Prompt length" if title == "prompt" else "Longest answer asked for"
    return Plot(words, f"{words} of {name}: most often {most}", _bars(sizes, labels), f"≤ {edges[0]}", f"≤ {edges[-1]}")


def _bars(sizes: Sequence[int], labels: Sequence[str]) -> tuple[Bar, ...]:
    width, top = min(100 / len(sizes), BAR_WIDTH_MAX), max(*sizes, 1)
    return tuple(
        Bar(round(i * width, 3), round(width * 0.86, 3), round(100 * size / top, 2), label)
        for i, (size, label) in enumerate(zip(sizes, labels, strict=True))
    )


def _dimensions(summary: TraceSummary, loads: Sequence[str]) -> Iterator[tuple[str, tuple[Stratum, ...]]]:
    dimensions: dict[str, list[Stratum]] = {}
    for stratum, sizes in summary.strata.items():
        dimension, _, label = stratum.partition("=")
        counts = tuple(sizes.get(load, 0) for load in loads)
        thin = tuple(0 < count < STRATUM_MIN for count in counts)
        dimensions.setdefault(dimension, []).append(Stratum(label, counts, thin))
    for dimension, strata in dimensions.items():
        yield dimension, tuple(sorted(strata, key=lambda stratum: -sum(stratum.sizes)))


def _warnings(summary: TraceSummary) -> Iterator[str]:
    header = summary.header
    if not header.content_valid:
        yield "The prompts are not real text: acceptance on them means nothing. Good for queueing and memory only."
    if header.privacy:
        yield "Prompts are keyed hashes: the worker needs the prompt file and the key to replay this."
    closed = [load.name for load in header.loads if load.clients is not None]
    if closed:
        names = ", ".join(closed)
        yield f"{names}: a closed loop. A slow server slows the clients down, so its latency understates waiting."
    if not header.warmup_requests:
        yield "There is no warm-up: the first measured requests also pay for what a server does once."
    thin = sum(0 < n < STRATUM_MIN for sizes in summary.strata.values() for load, n in sizes.items() if load != WARMUP)
    if thin:
        yield f"{thin} strata have fewer than {STRATUM_MIN} requests at a load; alone, such a stratum shows little."


def asked(request: TraceRequest) -> str:
    """What a request asks, for a table: text where there is any, else what stands for it."""
    if request.messages:
        return text_of(request.messages[-1])
    if request.prompt_hash:
        return f"keyed hash {request.prompt_hash[:12]}"
    if request.prompt is None:
        return request.prompt_text or f"{len(request.prompt_token_ids)} token ids"
    return request.prompt
