"""AIPerf's ``profile_export.jsonl``: a record for each request, from which the summaries are computed here.

It names no version, so its summary file says more of the run; but only records carry every request's acceptance.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import numpy as np

from app.domain.vocabulary import NS_PER_S
from app.interop.imports.document import BYTES_MAX, TOP, Node, Root, decode, refused
from app.interop.imports.from_aiperf import NO_ACCEPTANCE, NO_TPOT
from app.interop.imports.from_aiperf import SUMMARIES as KNOWN_SUMMARIES
from app.interop.imports.result import (
    Absent,
    ImportedAcceptance,
    ImportedPart,
    ImportedSummary,
    ImportedTime,
    ImportedValue,
)

PROFILING: Final = "profiling"
PERCENTILES: Final = (50, 90, 95, 99)
HERE: Final = "computed here from the records"
LOAD: Final = Absent(name="load", why="the records do not state it; profile_export_aiperf.json does")


def are_records(content: bytes) -> bool:
    """Whether it begins with a line that only such a file has."""
    head = content[: content.find(b"\n")] if b"\n" in content else b""
    return head.startswith(b"{") and b'"metadata"' in head and b'"metrics"' in head


def read_records(content: bytes) -> tuple[ImportedPart, int]:
    """The profiled requests, and how many members of the records were not read; raises ``ImportRefused``."""
    if len(content) > BYTES_MAX:
        raise refused(TOP, f"longer than {BYTES_MAX} bytes", "import profile_export_aiperf.json instead")
    roots = [*_roots(content)]
    records = [record for record in roots if record.child("metadata").text("benchmark_phase") == PROFILING]
    if not records:
        raise refused(TOP, f"it has no record of the phase {PROFILING}", "send the file of a run that was measured")
    part = _part(records)
    return part, sum(root.ignored_everywhere() for root in roots)


def _roots(content: bytes) -> Iterator[Root]:
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip():
            yield Root(decode(line), f"line {number}")


def _part(records: Sequence[Root]) -> ImportedPart:
    failed = [record for record in records if record.has("error")]
    served = [record for record in records if not record.has("error")]
    metrics = [record.child("metrics") for record in served]
    summaries = {name: found for name in KNOWN_SUMMARIES if (found := _summary(metrics, name)) is not None}
    acceptance = _acceptance(served)
    absent = [Absent(name=name, why="no record has it") for name in ("ttft", "itl", "e2e") if name not in summaries]
    return ImportedPart(
        name=PROFILING,
        load="not stated",
        time=_time(records),
        values=_values(records, served, failed),
        summaries=summaries,
        acceptance=acceptance,
        absent=(LOAD, NO_TPOT, *absent, *([NO_ACCEPTANCE] if acceptance is None else [])),
    )


def _times(records: Sequence[Root], name: str) -> list[float]:
    found = [record.child("metadata") for record in records]
    return [metadata.number(name) for metadata in found if metadata.has(name)]


def _time(records: Sequence[Root]) -> ImportedTime | None:
    begun = _times(records, "request_start_ns")
    try:
        found = datetime.fromtimestamp(min(begun) / NS_PER_S, UTC) if begun else None
    except (ValueError, OverflowError, OSError) as error:
        raise refused("metadata.request_start_ns", "it is no time", "send the file as its tool wrote it") from error
    meaning = "when its first request started, UTC"
    return None if found is None else ImportedTime(iso=found.isoformat(timespec="milliseconds"), meaning=meaning)


def _values(records: Sequence[Root], served: Sequence[Root], failed: Sequence[Root]) -> dict[str, ImportedValue]:
    def value(amount: float, unit: str, words: str, field: str) -> ImportedValue:
        return ImportedValue(value=amount, unit=unit, definition=f"{words}; {HERE}", field=field)

    begun, ended = _times(records, "request_start_ns"), _times(records, "request_end_ns")
    found = {
        "offered": value(len(records), "requests", "records of the profiling phase", "metadata"),
        "completed": value(len(served), "requests", "records without an error", "error"),
        "failed": value(len(failed), "requests", "records with an error", "error"),
    }
    seconds = (max(ended) - min(begun)) / NS_PER_S if begun and ended else 0.0
    if seconds > 0:
        field = "metadata.request_start_ns, metadata.request_end_ns"
        found["duration"] = value(seconds, "s", "from the first request's start to the last one's end", field)
        found["request_throughput"] = value(len(served) / seconds, "requests/s", "completed / duration", field)
    return found


def _summary(metrics: Sequence[Node], name: str) -> ImportedSummary | None:
    field, words, nearest = KNOWN_SUMMARIES[name]
    samples = [sample for node in metrics if node.has(field) for sample in _samples(node.child(field))]
    if not samples:
        return None
    values = np.asarray(samples)
    quantiles = {f"p{q}": float(np.percentile(values, q)) for q in PERCENTILES}
    return ImportedSummary(
        statistics={"mean": float(values.mean()), "min": float(values.min()), **quantiles, "max": float(values.max())},
        unit="ms",
        definition=f"{words}; {HERE}",
        field=f"metrics.{field}.value",
        nearest=nearest,
        samples=len(samples),
    )


def _samples(metric: Node) -> Sequence[float]:
    unit = metric.text("unit")
    if unit != "ms":
        raise refused(metric.where("unit"), f"the unit {unit} is not ms", "send the file as its tool wrote it")
    return metric.numbers("value") if metric.is_list("value") else (metric.number("value"),)


def _acceptance(served: Sequence[Root]) -> ImportedAcceptance | None:
    told = [record.child("spec_decode_acceptance") for record in served if record.has("spec_decode_acceptance")]
    if not told:
        return None
    names = ("num_draft_tokens", "num_accepted_draft_tokens", "num_spec_steps")
    drafted, accepted, steps = (sum(node.count(name) for node in told) for name in names)
    if accepted > drafted:
        raise refused("spec_decode_acceptance", "more was accepted than drafted", "measure again")
    return ImportedAcceptance(
        rate=accepted / drafted if drafted else None,
        mean_length_incl=1 + accepted / steps if steps else None,
        drafts=steps,
        drafted=drafted,
        accepted=accepted,
        unit="share of drafted tokens",
        definition=f"sums over the requests' own counts, as the server's answers carried them; {HERE}",
        field="spec_decode_acceptance",
    )
