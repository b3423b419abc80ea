"""Which format a file has, from its first bytes: the most demanding rule that holds, always with the reason."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.domain.errors import DomainError
from app.workloads.readers import azure, burstgpt
from app.workloads.readers.documents import decode_object
from app.workloads.readers.format import Format
from app.workloads.readers.lines import BYTE_ORDER_MARK
from app.workloads.readers.registry import FORMATS, format_named
from app.workloads.record import Row, RowRefused

HEAD_BYTES = 1 << 20
LINES_TRIED = 20
_COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip", b"BZh": "bzip2"}
_BODY_KEYS = frozenset({"messages", "prompt"})
_MOONCAKE_KEYS = frozenset({"input_length", "hash_ids", "text_input", "payload"})


@dataclass(frozen=True, slots=True)
class Sniffed:
    """A format and what in the file says so."""

    format: Format
    because: str


def sniff(path: Path) -> Sniffed:
    """The file's format; raises ``DomainError`` saying what was seen instead."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if head.startswith(b"PAR1"):
        return _found("speed-bench-parquet", "it begins with Parquet's mark")
    for mark, name in _COMPRESSED.items():
        if head.startswith(mark):
            raise DomainError.of("file", f"it is compressed ({name})", "decompress it first")
    found = _of_text(head.removeprefix(BYTE_ORDER_MARK))
    if found is None:
        raise _unknown(head)
    return found


def _of_text(head: bytes) -> Sniffed | None:
    if head.lstrip().startswith(b"["):
        return _found("sharegpt", "it is a JSON array") if b'"conversations"' in head else None
    lines = [line for line in head.split(b"\n") if line.strip()][:LINES_TRIED]
    if any(line.lstrip().startswith(b"{") for line in lines):
        return _of_objects(lines)
    return _of_table(lines[0]) if lines else None


def _of_table(line: bytes) -> Sniffed | None:
    try:
        names = next(csv.reader([line.decode().strip()]))
    except (UnicodeDecodeError, csv.Error, StopIteration):
        return None
    for name, columns in (("azure", azure.COLUMNS), ("burstgpt", burstgpt.REQUIRED)):
        if set(columns) <= set(names):
            return _found(name, f"its header has the columns {', '.join(columns)}")
    return None


def _of_objects(lines: list[bytes]) -> Sniffed | None:
    return next((found for row in _objects(lines) if (found := _of_keys(row))), None)


def _objects(lines: list[bytes]) -> Iterator[Row]:
    for line in lines:
        try:
            yield decode_object(line)
        except RowRefused:
            continue


def _of_keys(row: Row) -> Sniffed | None:
    """The rules in order of how much each demands."""
    keys = row.keys()
    rules = (
        ("verdraft", str(row.get("format", "")).startswith("verdraft/trace/"), "its first line says so"),
        ("evalscope", {"body", "timestamp"} <= keys, "its rows have body and timestamp"),
        (
            "spec-bench",
            {"question_id", "turns"} <= keys and "src_id" not in keys,
            "its rows have question_id and turns",
        ),
        (
            "speed-bench",
            "question_id" in keys and bool({"messages", "turns"} & keys),
            "its rows have question_id and messages",
        ),
        ("mooncake", bool(_MOONCAKE_KEYS & keys), f"its rows have {', '.join(sorted(_MOONCAKE_KEYS & keys))}"),
        ("sharegpt", "conversations" in keys, "its rows have conversations"),
        ("openai", "timestamp" in keys and bool(_BODY_KEYS & keys), "its rows have a timestamp and messages or prompt"),
        ("vllm-custom", "prompt" in keys and "timestamp" not in keys, "its rows have prompt"),
    )
    return next((_found(name, because) for name, holds, because in rules if holds), None)


def _found(name: str, because: str) -> Sniffed:
    return Sniffed(format_named(name), because)


def _unknown(head: bytes) -> DomainError:
    seen = "it is empty" if not head.strip() else "its first lines fit no known format"
    return DomainError.of("file", seen, f"name the format with --format: {', '.join(FORMATS)}")
