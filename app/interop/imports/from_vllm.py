"""``vllm bench serve --save-result``: summaries in milliseconds, acceptance in percent, no version anywhere."""

import re
from datetime import datetime
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

DEFINITIONS: Final = {
    "ttft": ("first streamed message - send", "ttft_from_sent_ns"),
    "tpot": ("(last message - first message) / (output tokens - 1), one sample a request", "tpot_ns"),
    "itl": ("time between streamed messages, each of which may carry several tokens", "itl_chunk_ns"),
    "e2el": ("last streamed message - send", "e2e_from_sent_ns"),
    "client_queue_time": ("what a request waited in the client for a free place", "lateness_ns"),
    "e2el_including_client_queue": ("last streamed message - when the client wanted to send", "e2e_ns"),
}
OUR_NAMES: Final = {"e2el": "e2e"}
VALUES: Final = {
    "offered": ("num_prompts", "requests", "prompts that were asked for"),
    "completed": ("completed", "requests", "answers with a first message and no error; one cut off counts"),
    "failed": ("failed", "requests", "answers with an error, or without a message"),
    "duration": ("duration", "s", "from before the first request until every answer had ended"),
    "request_throughput": ("request_throughput", "requests/s", "completed / duration"),
    "output_throughput": ("output_throughput", "tokens/s", "output tokens of completed requests / duration"),
    "goodput": ("request_goodput", "requests/s", "completed requests that met the tool's objectives / duration"),
}
REQUIRED: Final = ("completed", "duration", "request_throughput", "output_throughput")
NO_VERSION: Final = Absent(name="tool_version", why="vllm bench serve writes none")
_STATISTIC: Final = re.compile(r"(mean|median|std|p\d{1,2}(?:\.\d{1,4})?)_([a-z0-9_]+)_ms")


def read_vllm(root: Node) -> ImportedPart:
    """The one benchmark of the file; raises ``ImportRefused``."""
    rate, words = _rate(root)
    clients = root.count("max_concurrency") if root.has("max_concurrency") else None
    summaries = _summaries(root)
    acceptance = _acceptance(root)
    return ImportedPart(
        name=root.text("label") if root.has("label") else root.text("backend"),
        load=words if clients is None else f"{words}, at most {clients} at a time",
        request_rate_rps=rate,
        concurrency=clients,
        time=_time(root),
        values={name: _value(root, *told) for name, told in VALUES.items() if root.has(told[0]) or told[0] in REQUIRED},
        summaries=summaries,
        acceptance=acceptance,
        absent=tuple(_absent(summaries, acceptance)),
    )


def _absent(summaries: dict[str, ImportedSummary], acceptance: ImportedAcceptance | None) -> list[Absent]:
    missing = [name for name in ("ttft", "tpot", "itl", "e2e") if name not in summaries]
    found = [Absent(name=name, why="not among the file's --percentile-metrics") for name in missing]
    if acceptance is None:
        why = "the file has no spec_decode fields: the server did not speculate, or its /metrics could not be read"
        found.append(Absent(name="acceptance", why=why))
    return [NO_VERSION, *found]


def _rate(root: Node) -> tuple[float | None, str]:
    if root.is_text("request_rate"):
        word = root.text("request_rate")
        if word != "inf":
            raise refused("request_rate", f"{word!r} is neither a number nor inf", "send the file as its tool wrote it")
        return None, "all requests at once"
    rate = root.number("request_rate")
    return rate, f"{rate:g} requests/s"


def _time(root: Node) -> ImportedTime | None:
    if not root.has("date"):
        return None
    written = root.text("date")
    try:
        found = datetime.strptime(written, "%Y%m%d-%H%M%S")  # noqa: DTZ007  (the file has no zone)
    except ValueError as error:
        raise refused("date", f"{written!r} is not YYYYMMDD-HHMMSS", "send the file as its tool wrote it") from error
    return ImportedTime(iso=found.isoformat(), meaning="when it ended, by its host's own time zone")


def _value(root: Node, field: str, unit: str, definition: str) -> ImportedValue:
    return ImportedValue(value=root.number(field), unit=unit, definition=definition, field=field)


def _summaries(root: Node) -> dict[str, ImportedSummary]:
    statistics: dict[str, dict[str, float]] = {}
    for name in [*root.names()]:
        found = _STATISTIC.fullmatch(name)
        if found and found[2] in DEFINITIONS:
            statistics.setdefault(found[2], {})[found[1]] = root.number(name)
    return {OUR_NAMES.get(metric, metric): _summary(metric, values) for metric, values in statistics.items()}


def _summary(metric: str, statistics: dict[str, float]) -> ImportedSummary:
    definition, nearest = DEFINITIONS[metric]
    return ImportedSummary(
        statistics=statistics, unit="ms", definition=definition, field=f"*_{metric}_ms", nearest=nearest
    )


def _acceptance(root: Node) -> ImportedAcceptance | None:
    if not root.has("spec_decode_acceptance_rate"):
        return None
    at = root.numbers("spec_decode_per_position_acceptance_rates")
    percent = root.number("spec_decode_acceptance_rate")
    if percent > 100 or any(rate > 1 for rate in at):  # noqa: PLR2004  (percent)
        raise refused("spec_decode_acceptance_rate", "more was accepted than drafted", "measure again")
    return ImportedAcceptance(
        rate=percent / 100,
        mean_length_incl=root.number("spec_decode_acceptance_length"),
        drafts=root.count("spec_decode_num_drafts"),
        drafted=root.count("spec_decode_draft_tokens"),
        accepted=root.count("spec_decode_accepted_tokens"),
        by_position=at,
        unit="share of drafted tokens",
        definition="differences of the server's counters over the whole benchmark, whoever else used the server",
        field="spec_decode_*",
    )
