"""What the commands answer: one document, and the same in lines for a person."""

from collections.abc import Iterator, Mapping
from typing import Any

from app.domain.trace_header import TraceHeader
from app.domain.vocabulary import NS_PER_S
from app.workloads.importing import Reading
from app.workloads.output import Written
from app.workloads.readers.sniffing import Sniffed
from app.workloads.tally import PROBLEMS_SHOWN, place
from app.workloads.trace_import import Imported, import_record

Document = dict[str, Any]


def reading_document(sniffed: Sniffed, reading: Reading) -> Document:
    """What a look at a source found."""
    return {
        "format": sniffed.format.name,
        "because": sniffed.because,
        "record": import_record(reading),
        "strata": dict(sorted(reading.strata.items())),
        "warnings": [f"{count} rows: {text}" for text, count in reading.remarks.items()],
    }


def imported_document(sniffed: Sniffed, imported: Imported) -> Document:
    """What an import made."""
    document = reading_document(sniffed, imported.reading) | {"warnings": list(imported.warnings)}
    document["record"] = imported.header.record
    document["trace"] = trace_document(imported.header, imported.trace)
    if imported.prompts is not None:
        document["prompts"] = written_document(imported.prompts)
    return document


def trace_document(header: TraceHeader, written: Written) -> Document:
    """A trace that was written."""
    return written_document(written) | {
        "name": header.name,
        "content_valid": header.content_valid,
        "warmup_requests": header.warmup_requests,
        "loads": [load.model_dump(mode="json", exclude_none=True) for load in header.loads],
    }


def written_document(written: Written) -> Document:
    """A file that was written, with its digest."""
    return {"path": str(written.path), "digest": written.digest, "bytes": written.size}


def lines(document: Mapping[str, Any], reading: Reading) -> Iterator[str]:
    """The document for a person: counts first, then what is wrong, then what was made."""
    yield f"format: {document['format']} ({document['because']})"
    yield from _counts(reading)
    yield from _bad_rows(reading)
    yield f"strata: {', '.join(f'{name} {size}' for name, size in document['strata'].items())}"
    yield from (f"warning: {warning}" for warning in document["warnings"])
    if trace := document.get("trace"):
        yield from _trace(trace)
    if prompts := document.get("prompts"):
        yield f"prompts: {prompts['path']} (for the worker only)"


def _counts(reading: Reading) -> Iterator[str]:
    tally = reading.tally
    more = "" if reading.complete else ", and there are more in the file"
    yield f"rows: {tally.read} read = {tally.kept} kept + {tally.skipped} skipped{more}"
    yield f"requests: {reading.requests}"
    asked = _total(tally.input_tokens, tally.unknown_input, tally.kept)
    answered = _total(tally.output_tokens, tally.unknown_output, tally.kept)
    yield f"tokens in the source: {asked} in, {answered} out"
    if tally.span_ns is not None:
        yield f"span: {tally.span_ns / NS_PER_S:.7f} s"
    yield from (f"note: {text} ({count})" for text, count in tally.notes.items())


def _total(tokens: int, unknown: int, kept: int) -> str:
    if unknown == kept:
        return "not stated"
    return f"{tokens}" + (f" (not stated for {unknown} rows)" if unknown else "")


def _bad_rows(reading: Reading) -> Iterator[str]:
    shown = reading.tally.bad_rows[:PROBLEMS_SHOWN]
    yield from (f"skipped {place(bad)}: {bad.field}: {bad.reason}" for bad in shown)
    if reading.tally.skipped > len(shown):
        yield from (f"skipped in all: {count} rows, {reason}" for reason, count in reading.tally.reasons.most_common())


def _trace(trace: Mapping[str, Any]) -> Iterator[str]:
    valid = "" if trace["content_valid"] else "  CONTENT NOT VALID: acceptance on it means nothing"
    yield f"trace: {trace['path']} ({trace['bytes']} bytes){valid}"
    yield f"digest: {trace['digest']}"
    for load in trace["loads"]:
        offered = f"{load['clients']} clients" if "clients" in load else f"{load['rate_rps']:g} requests/s"
        yield f"load {load['name']}: {load['requests']} requests, {offered}, {load['duration_ns'] / NS_PER_S:g} s"
