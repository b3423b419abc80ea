"""GuideLLM's report, version 2: one benchmark for each load, each quantity by how its requests ended.

Only the successful are read. Its quantities per token weight each request's mean by the request's tokens.
"""

from datetime import UTC, datetime
from typing import Final

from app.interop.imports.document import Node, refused
from app.interop.imports.result import Absent, ImportedPart, ImportedSummary, ImportedTime, ImportedValue

KNOWN: Final = (2,)
STATISTICS: Final = {"mean": "mean", "median": "median", "std_dev": "std", "min": "min", "max": "max"}
PERCENTILES: Final = {"p01": "p1", "p05": "p5", "p10": "p10", "p25": "p25", "p50": "p50", "p75": "p75", "p90": "p90",
                      "p95": "p95", "p99": "p99", "p999": "p99.9"}  # fmt: skip
SUMMARIES: Final = {
    "ttft": ("time_to_first_token_ms", "ms", "first token iteration - request start", "ttft_from_sent_ns"),
    "ttfot": ("time_to_first_output_token_ms", "ms", "first token that is no reasoning - request start", None),
    "itl": (
        "inter_token_latency_ms",
        "ms",
        "(last token - first token) / (output tokens - 1) of a request, weighted by those tokens",
        "tpot_ns",
    ),
    "tpot": (
        "time_per_output_token_ms",
        "ms",
        "(last token - request start) / output tokens, the first one included, weighted by the tokens",
        None,
    ),
    "e2e": ("request_latency", "s", "request end - request start", "e2e_from_sent_ns"),
    "tokens_per_chunk": (
        "output_tokens_per_iteration",
        "tokens",
        "output tokens of a request / its streamed messages with tokens",
        None,
    ),
}
VALUES: Final = {
    "completed": ("successful", "requests that ended without an error"),
    "failed": ("errored", "requests that ended with an error"),
    "incomplete": ("incomplete", "requests that were cancelled when the benchmark ended"),
    "offered": ("total", "requests that were made"),
}
RATES: Final = {
    "request_throughput": ("requests_per_second", "requests/s", "successful requests over time, warm-up left out"),
    "output_throughput": ("output_tokens_per_second", "tokens/s", "output tokens over time, by GuideLLM's own average"),
    "concurrency_seen": ("request_concurrency", "requests", "successful requests in flight, mean over time"),
}
NO_ACCEPTANCE: Final = Absent(name="acceptance", why="GuideLLM does not read the server's counters")


def read_guidellm(root: Node) -> tuple[ImportedPart, ...]:
    """Every benchmark of the report; raises ``ImportRefused``."""
    benchmarks = root.children("benchmarks")
    if not benchmarks:
        raise refused("benchmarks", "there is none", "let a benchmark end before the report is written")
    return tuple(_part(benchmark) for benchmark in benchmarks)


def guidellm_versions(root: Node) -> tuple[str, str]:
    """The tool's version and the report's; raises ``ImportRefused`` for a report of another version."""
    metadata = root.child("metadata")
    version = metadata.count("version") if metadata.has("version") else 1
    if version not in KNOWN:
        message = f"report version {version} is not read here; known: {', '.join(map(str, KNOWN))}"
        raise refused("metadata.version", message, "write the report with GuideLLM 0.7 or 0.8")
    return metadata.text("guidellm_version"), str(version)


def guidellm_model(root: Node) -> str | None:
    """The model that was asked for, where it was named."""
    spec = root.child("config").maybe("spec") if root.has("config") else None
    backend = spec.maybe("backend") if spec else None
    return backend.text("model") if backend and backend.has("model") else None


def _part(benchmark: Node) -> ImportedPart:
    strategy, metrics = benchmark.child("config").child("strategy"), benchmark.child("metrics")
    summaries = {name: found for name in SUMMARIES if (found := _summary(metrics, name)) is not None}
    missing = [name for name in ("ttft", "tpot", "itl", "e2e") if name not in summaries]
    why = "the report has it of no successful request: the answers were not streamed, or had too few tokens"
    rate = strategy.number("rate") if strategy.has("rate") else None
    streams = strategy.count("streams") if strategy.has("streams") else None
    kind = strategy.text("type_")
    words = kind if rate is None else f"{kind}, {rate:g} requests/s"
    return ImportedPart(
        name=words,
        load=words if streams is None else f"{kind}, {streams} streams",
        request_rate_rps=rate,
        concurrency=1 if kind == "synchronous" else streams,
        time=_time(benchmark),
        values=_values(benchmark, metrics),
        summaries=summaries,
        absent=(*(Absent(name=name, why=why) for name in missing), NO_ACCEPTANCE),
    )


def _time(benchmark: Node) -> ImportedTime | None:
    if not benchmark.has("start_time"):
        return None
    seconds = benchmark.number("start_time")
    try:
        found = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise refused(benchmark.where("start_time"), f"{seconds:g} s is no time", "measure again") from error
    return ImportedTime(iso=found.isoformat(timespec="milliseconds"), meaning="when it started, UTC")


def _values(benchmark: Node, metrics: Node) -> dict[str, ImportedValue]:
    totals = metrics.child("request_totals")
    found = {name: _count(totals, field, words) for name, (field, words) in VALUES.items()}
    if benchmark.has("duration"):
        words = "from the first request to the last answer, warm-up and cool-down left out"
        seconds = benchmark.number("duration")
        where = benchmark.where("duration")
        found["duration"] = ImportedValue(value=seconds, unit="s", definition=words, field=where)
    for name, (field, unit, words) in RATES.items():
        if (served := _served(metrics, field)) is not None:
            where = served.where("mean")
            found[name] = ImportedValue(value=served.number("mean"), unit=unit, definition=words, field=where)
    return found


def _count(totals: Node, field: str, words: str) -> ImportedValue:
    return ImportedValue(value=totals.count(field), unit="requests", definition=words, field=totals.where(field))


def _summary(metrics: Node, name: str) -> ImportedSummary | None:
    field, unit, words, nearest = SUMMARIES[name]
    served = _served(metrics, field)
    if served is None:
        return None
    statistics = {ours: served.number(theirs) for theirs, ours in STATISTICS.items() if served.has(theirs)}
    if (percentiles := served.maybe("percentiles")) is not None:
        statistics |= {o: percentiles.number(t) for t, o in PERCENTILES.items() if percentiles.has(t)}
    return ImportedSummary(
        statistics=statistics,
        unit=unit,
        definition=words,
        field=served.path,
        nearest=nearest,
        samples=served.count("count"),
    )


def _served(metrics: Node, field: str) -> Node | None:
    """The statistics over successful requests; GuideLLM writes zeros where it has no sample."""
    quantity = metrics.maybe(field)
    served = quantity.maybe("successful") if quantity else None
    return served if served is not None and served.has("count") and served.count("count") else None
