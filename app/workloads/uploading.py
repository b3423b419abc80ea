"""A file from a browser: read as the command line would, in a private directory that is gone afterwards.

The sender's file name is only kept as a word; nothing on this host is opened by it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import Annotated, BinaryIO

from pydantic import Field, JsonValue

from app.domain.errors import DomainError
from app.domain.trace import TraceRequest
from app.domain.trace_summary import TraceSummary
from app.evidence.packing import CHUNK_BYTES, HEAD_BYTES, PackedTrace, first_requests, pack_trace
from app.workloads.choices import OnBadRow, Turns
from app.workloads.drafting import MAX_TOKENS_DEFAULT, Choices
from app.workloads.importing import open_source
from app.workloads.loads import Timing, parse_loads
from app.workloads.preparing import Content, describe_content, find_format, make_drafter, trace_name
from app.workloads.readers.sniffing import Sniffed
from app.workloads.readers.verdraft import FORMAT as OWN
from app.workloads.tokens import TOKENIZER_FILE
from app.workloads.trace_import import Imported, Target, import_trace

EXAMPLES = 5
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
NAME_MAX = 80
MAX_TOKENS_MOST = 1 << 20


@dataclass(frozen=True, slots=True)
class UploadWish:
    """What the form asks for, as typed; empty text stands for the default."""

    format_name: str = ""
    name: str = ""
    loads: str = ""
    tokenizer: str = ""
    """A model's alias under the service's model directory."""
    on_bad_row: OnBadRow = OnBadRow.REFUSE
    turns: Turns = Turns.FIRST
    max_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS_MOST)] = MAX_TOKENS_DEFAULT


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that was read: the trace that it makes, ready to be stored, and what to know before storing it."""

    because: str
    packed: PackedTrace
    warnings: tuple[str, ...]
    examples: tuple[TraceRequest, ...]

    @property
    def summary(self) -> TraceSummary:
        """The trace in numbers."""
        return self.packed.summary


def read_upload(content: BinaryIO, file_name: str, wish: UploadWish, model_root: Path) -> Upload:
    """Make a trace of the file. Raises ``DomainError`` naming every row that keeps it from being one."""
    with TemporaryDirectory(prefix="verdraft-upload-") as directory:
        path = Path(directory) / safe_name(file_name)
        with path.open("wb") as file:
            copyfileobj(content, file)
        sniffed = find_format(path, wish.format_name or None)
        if sniffed.format is OWN:
            return _upload(sniffed, path, ())
        made = _import(path, sniffed, wish, model_root)
        return _upload(sniffed, made.trace.path, made.warnings)


def safe_name(file_name: str) -> str:
    """The last part of a name, with nothing in it that a file system could take for more than a letter."""
    last = re.split(r"[/\\]", file_name)[-1]
    return _UNSAFE.sub("-", last).strip(".-")[:NAME_MAX] or "upload"


def tokenizers(model_root: Path) -> tuple[str, ...]:
    """The models whose tokenizer can count a file's tokens."""
    return tuple(sorted(path.parent.name for path in model_root.glob(f"*/{TOKENIZER_FILE}")))


def _import(path: Path, sniffed: Sniffed, wish: UploadWish, model_root: Path) -> Imported:
    drafter = make_drafter(
        sniffed.format,
        Choices(wish.turns, max_tokens=wish.max_tokens),
        Content(),
        _tokenizer(wish.tokenizer, model_root),
        dry_run=False,
    )
    source = open_source(path, sniffed.format)
    timing = Timing(parse_loads(wish.loads)) if wish.loads else Timing()
    target = Target(
        path.parent / "made.jsonl",
        trace_name(path, wish.name or None),
        differs=lambda: describe_content(drafter.filling),
        options=_options(wish, timing),
    )
    return import_trace(source, drafter, timing, target, on_bad_row=wish.on_bad_row)


def _tokenizer(alias: str, model_root: Path) -> Path | None:
    """Only a model's alias opens a file: the sender names no paths of this host."""
    if not alias:
        return None
    if alias not in tokenizers(model_root):
        known = ", ".join(tokenizers(model_root)) or "none is here"
        raise DomainError.of("tokenizer", f"no model here is called {alias[:60]!r}", f"choose one of: {known}")
    return model_root / alias / TOKENIZER_FILE


def _options(wish: UploadWish, timing: Timing) -> dict[str, JsonValue]:
    """As the command line records them, so that the same import gives the same bytes."""
    asked: dict[str, JsonValue] = {"tokenizer": wish.tokenizer, "loads": wish.loads, "turns": wish.turns}
    asked |= {"max_tokens": wish.max_tokens, "seed": timing.seed}
    return {name: value for name, value in asked.items() if value}


def _upload(sniffed: Sniffed, path: Path, warnings: tuple[str, ...]) -> Upload:
    packed = pack_trace(_chunks(path))
    examples = first_requests(packed.body[:HEAD_BYTES], EXAMPLES)
    return Upload(f"{sniffed.format.title}: {sniffed.because}", packed, warnings, tuple(examples))


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
