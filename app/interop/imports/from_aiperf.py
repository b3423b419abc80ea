"""AIPerf's summary, ``profile_export_aiperf.json``: a block of statistics for each metric, its unit within it."""

from typing import Final

from app.interop.imports.document import Node, refused
from app.interop.imports.result import (
    Absent,
    ImportedAcceptance,
    ImportedPart,
    ImportedSummary,
    ImportedTime,
    ImportedValue,
)

KNOWN: Final = ("1.0", "1.1", "1.2", "1.3", "1.4", "1.5")
"""AIPerf documents each as adding to the one before, but for GPU telemetry, which is not read here."""
SUMMARIES: Final = {
    "ttft": ("time_to_first_token", "first message with content - request start", "ttft_from_sent_ns"),
    "itl": (
        "inter_token_latency",
        "(last message - first message) / (output tokens - 1), or with --per-chunk-usage / the tokens after the first",
        "tpot_ns",
    ),
    "inter_chunk": ("inter_chunk_latency", "time between messages with content", "itl_chunk_ns"),
    "e2e": ("request_latency", "last message with content - request start", "e2e_from_sent_ns"),
}
VALUES: Final = {
    "completed": ("request_count", "requests that ended without an error"),
    "failed": ("error_request_count", "requests that ended with an error"),
    "duration": ("benchmark_duration", "from the first request to the last answer"),
    "request_throughput": ("request_throughput", "completed requests / duration"),
    "output_throughput": ("output_token_throughput", "output tokens of completed requests / duration"),
    "goodput": ("goodput", "completed requests that met the tool's objectives / duration"),
}
REQUIRED: Final = frozenset({"request_count", "request_throughput"})
STATISTICS: Final = {"avg": "mean", "std": "std", "min": "min", "max": "max"} | {
    f"p{q}": f"p{q}" for q in (1, 5, 10, 25, 50, 75, 90, 95, 99)
}
UNITS: Final = frozenset({"ms", "us", "ns", "sec", "s", "requests", "requests/sec", "tokens/sec", "count"})
NO_TPOT: Final = Absent(name="tpot", why="AIPerf calls it inter_token_latency: see itl")
NO_FAILED: Final = Absent(name="failed", why="AIPerf writes no count of errors where there were none")
NO_ACCEPTANCE: Final = Absent(name="acceptance", why="the server told AIPerf nothing of speculation")


def aiperf_versions(root: Node) -> tuple[str | None, str]:
    """The tool's version and the file's; raises ``ImportRefused`` for a file of another version."""
    version = root.text("schema_version")
    if version not in KNOWN:
        message = f"schema version {version} is not read here; known: {', '.join(KNOWN)}"
        raise refused("schema_version", message, "write the file with AIPerf up to 0.14")
    return (root.text("aiperf_version") if root.has("aiperf_version") else None), version


def aiperf_model(root: Node) -> str | None:
    """The first model of the run's configuration."""
    models = _configured(root, "models")
    items = models.children("items") if models and models.has("items") else []
    return items[0].text("name") if items and items[0].has("name") else None


def read_aiperf(root: Node) -> ImportedPart:
    """The profiling phase; raises ``ImportRefused``."""
    summaries = {name: _summary(root, name) for name, told in SUMMARIES.items() if root.has(told[0])}
    acceptance = _acceptance(root)
    rate, concurrency, words = _load(root)
    return ImportedPart(
        name="profiling",
        load=words,
        request_rate_rps=rate,
        concurrency=concurrency,
        time=ImportedTime(iso=root.text("start_time"), meaning="when it started, as its host wrote it, without a zone")
        if root.has("start_time")
        else None,
        values={n: _value(root, *told) for n, told in VALUES.items() if root.has(told[0]) or told[0] in REQUIRED},
        summaries=summaries,
        acceptance=acceptance,
        absent=tuple(_absent(root, summaries, acceptance)),
    )


def _absent(root: Node, summaries: dict[str, ImportedSummary], acceptance: ImportedAcceptance | None) -> list[Absent]:
    why = "the file has no such metric: the answers were not streamed, or had too few tokens"
    found = [Absent(name=name, why=why) for name in ("ttft", "itl", "e2e") if name not in summaries]
    found += [NO_TPOT, *([] if root.has("error_request_count") else [NO_FAILED])]
    if acceptance is None:
        found.append(NO_ACCEPTANCE)
    if root.has("was_cancelled") and root.flag("was_cancelled"):
        found.append(Absent(name="completeness", why="the run was cancelled before its end"))
    if root.has("is_complete") and not root.flag("is_complete"):
        found.append(Absent(name="completeness", why="AIPerf marks the run as incomplete"))
    return found


def _configured(root: Node, name: str) -> Node | None:
    config = root.maybe("input_config")
    return config.maybe(name) if config else None


def _load(root: Node) -> tuple[float | None, int | None, str]:
    """Of the last profiling phase."""
    config = root.maybe("input_config")
    phases = config.children("phases") if config and config.has("phases") else []
    if not phases:
        return None, None, "not stated"
    phase = phases[-1]
    rate = phase.number("rate") if phase.has("rate") else None
    concurrency = phase.count("concurrency") if phase.has("concurrency") else None
    kind = phase.text("type") if phase.has("type") else "not stated"
    words = [kind, *([f"{rate:g} requests/s"] if rate is not None else [])]
    return rate, concurrency, ", ".join([*words, *([f"at most {concurrency} at a time"] if concurrency else [])])


def _value(root: Node, field: str, words: str) -> ImportedValue:
    block = root.child(field)
    return ImportedValue(value=block.number("avg"), unit=_unit(block), definition=words, field=block.where("avg"))


def _summary(root: Node, name: str) -> ImportedSummary:
    field, words, nearest = SUMMARIES[name]
    block = root.child(field)
    samples = block.count("count") if block.has("count") else None
    statistics = {ours: block.number(theirs) for theirs, ours in STATISTICS.items() if block.has(theirs)}
    if not statistics:
        raise refused(field, "it has no statistics", "send the file as its tool wrote it")
    return ImportedSummary(
        statistics=statistics, unit=_unit(block), definition=words, field=field, nearest=nearest, samples=samples
    )


def _unit(block: Node) -> str:
    unit = block.text("unit")
    if unit not in UNITS:
        known = ", ".join(sorted(UNITS))
        raise refused(block.where("unit"), f"the unit {unit} is not known; known: {known}", "measure with usual units")
    return unit


def _acceptance(root: Node) -> ImportedAcceptance | None:
    """Its totals over all requests: the figures by request have another mean."""
    if not root.has("total_draft_tokens"):
        return None
    drafted, accepted = (root.child(f"total_{name}_tokens").count("avg") for name in ("draft", "accepted_draft"))
    steps = root.child("total_spec_decode_steps").count("avg") if root.has("total_spec_decode_steps") else None
    if accepted > drafted:
        raise refused("total_accepted_draft_tokens.avg", "more was accepted than drafted", "measure again")
    return ImportedAcceptance(
        rate=accepted / drafted if drafted else None,
        mean_length_incl=1 + accepted / steps if steps else None,
        drafts=steps,
        drafted=drafted,
        accepted=accepted,
        by_position=_by_position(root, steps),
        unit="share of drafted tokens",
        definition="sums over the requests' own counts, as the server's answers carried them",
        field="total_draft_tokens, total_accepted_draft_tokens",
    )


def _by_position(root: Node, steps: int | None) -> tuple[float, ...]:
    """From the histogram of accepted tokens a step: those that accepted more than j / all steps."""
    histogram = root.maybe("pooled_spec_decode_acceptance_histogram")
    if histogram is None or not steps:
        return ()
    names = [*histogram.names()]
    if not all(name.isascii() and name.isdigit() and len(name) < 4 for name in names):  # noqa: PLR2004  (a draft's length)
        raise refused(histogram.path, "its keys are not numbers of tokens", "send the file as its tool wrote it")
    counts = {int(name): histogram.count(name) for name in names}
    above = (sum(n for accepted, n in counts.items() if accepted > j) for j in range(max(counts, default=0)))
    return tuple(hits / steps for hits in above)
