"""What the workload commands do, apart from how they are typed."""

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import JsonValue, ValidationError

from app.domain.errors import DomainError
from app.domain.refusals import field_problems
from app.domain.trace_scan import split_lines, summarise
from app.domain.vocabulary import NS_PER_S
from app.intake import decode_yaml
from app.settings import Settings
from app.synthetic.make import make_trace
from app.synthetic.spec import SyntheticSpec
from app.workloads.answers import imported_document, lines, reading_document
from app.workloads.choices import Join, OnBadRow, Spread, Turns
from app.workloads.drafting import Choices, Drafter
from app.workloads.importing import Source, open_source, read_rows, settle
from app.workloads.loads import Timing, parse_loads
from app.workloads.output import Written, write_lines
from app.workloads.preparing import Content, describe_content, find_format, make_drafter, parse_labels, trace_name
from app.workloads.privacy import read_key
from app.workloads.progress import byte_progress
from app.workloads.readers.sniffing import Sniffed
from app.workloads.readers.verdraft import FORMAT as OWN
from app.workloads.record import BadRow
from app.workloads.slicing import CHUNK_BYTES
from app.workloads.spool import Discard
from app.workloads.tally import place
from app.workloads.tokens import Tokens, find_tokenizer
from app.workloads.trace_import import Target, import_trace


@dataclass(frozen=True, slots=True)
class ImportWish:
    """The options of ``workload import``, as typed."""

    file: Path
    format_name: str | None
    dry_run: bool
    on_bad_row: OnBadRow
    bad_rows: Path | None
    limit: int | None
    tokenizer: str | None
    corpus: Path | None
    corpus_format: str | None
    join: Join | None
    allow_reuse: bool
    block_tokens: int
    loads: str | None
    arrival: Spread | None
    seed: int
    burstiness: float
    warmup: int | None
    turns: Turns
    think_s: float
    labels: tuple[str, ...]
    max_tokens: int
    name: str | None
    privacy_key: Path | None
    prompts: Path | None
    output: Path | None

    @property
    def content(self) -> Content:
        """Where content comes from."""
        return Content(self.corpus, self.corpus_format, self.join, self.allow_reuse, self.block_tokens)

    @property
    def choices(self) -> Choices:
        """What is decided about every request."""
        return Choices(self.turns, parse_labels(self.labels), self.max_tokens, round(self.think_s * NS_PER_S))

    @property
    def timing(self) -> Timing:
        """The load points."""
        loads = Timing().loads if self.loads is None else parse_loads(self.loads)
        return Timing(loads, self.arrival, self.seed, self.burstiness, self.warmup)

    def options(self) -> dict[str, JsonValue]:
        """What shaped the trace, for its record; only what was asked for."""
        asked: dict[str, JsonValue] = {
            "limit": self.limit,
            "tokenizer": self.tokenizer,
            "corpus": self.corpus.name if self.corpus else None,
            "join": self.join,
            "allow_reuse": self.allow_reuse or None,
            "loads": self.loads,
            "arrival": self.arrival,
            "warmup": self.warmup,
            "turns": self.turns,
            "think_s": self.think_s or None,
            "labels": list(self.labels) or None,
            "max_tokens": self.max_tokens,
            "seed": self.seed,
            "burstiness": None if self.burstiness == 1.0 else self.burstiness,
        }
        return {name: value for name, value in asked.items() if value is not None}


def run_import(wish: ImportWish) -> tuple[dict[str, Any], list[str]]:
    """The answer of ``workload import`` as a document and as lines. Raises ``DomainError``."""
    sniffed = find_format(wish.file, wish.format_name)
    if sniffed.format is OWN:
        return _look_at_trace(wish, sniffed)
    tokenizer = find_tokenizer(wish.tokenizer, Settings().model_root) if wish.tokenizer else None
    drafter = make_drafter(sniffed.format, wish.choices, wish.content, tokenizer, dry_run=wish.dry_run)
    source = open_source(wish.file, sniffed.format)
    timing = wish.timing
    if wish.dry_run:
        return _look(wish, sniffed, source, drafter)
    return _import(wish, sniffed, source, drafter, timing)


def run_make(spec_file: Path, output: Path, tokenizer: str | None) -> Written:
    """Write the synthetic trace of a spec. Raises ``DomainError``."""
    try:
        spec = SyntheticSpec.model_validate(decode_yaml(spec_file.read_bytes(), "spec"))
    except ValidationError as error:
        raise DomainError(*field_problems(error)) from error
    encode = Tokens(find_tokenizer(tokenizer, Settings().model_root)).ids if tokenizer else None
    return write_lines(output, (line.removesuffix(b"\n") for line in make_trace(spec, encode)))


def _look(wish: ImportWish, sniffed: Sniffed, source: Source, drafter: Drafter) -> tuple[dict[str, Any], list[str]]:
    with _bad_row_file(wish.bad_rows) as on_bad, byte_progress(source.size, "reading") as progress:
        reading = read_rows(source, drafter, Discard(), limit=wish.limit, on_bad=on_bad, progress=progress)
    settle(reading, wish.on_bad_row)
    document = reading_document(sniffed, reading) | {"dry_run": True}
    return document, list(lines(document, reading))


def _import(
    wish: ImportWish, sniffed: Sniffed, source: Source, drafter: Drafter, timing: Timing
) -> tuple[dict[str, Any], list[str]]:
    target = _target(wish, drafter)
    with _bad_row_file(wish.bad_rows) as on_bad, byte_progress(source.size, "importing") as progress:
        imported = import_trace(
            source,
            drafter,
            timing,
            target,
            on_bad_row=wish.on_bad_row,
            limit=wish.limit,
            on_bad=on_bad,
            progress=progress,
        )
    document = imported_document(sniffed, imported)
    return document, list(lines(document, imported.reading))


def _target(wish: ImportWish, drafter: Drafter) -> Target:
    name = trace_name(wish.file, wish.name)
    output = wish.output or Path(f"{name}.trace.jsonl")
    return Target(
        output,
        name,
        key=read_key(wish.privacy_key) if wish.privacy_key else None,
        prompts=wish.prompts,
        differs=lambda: describe_content(drafter.filling),
        options=wish.options(),
    )


def _look_at_trace(wish: ImportWish, sniffed: Sniffed) -> tuple[dict[str, Any], list[str]]:
    """A file of our own format is checked whole; there is nothing to make of it."""
    if not wish.dry_run:
        message = "it is a trace already"
        raise DomainError.of("file", message, "check it with --dry-run, cut it with slice or sample, or upload it")
    with wish.file.open("rb") as file:
        summary = summarise(split_lines(iter(lambda: file.read(CHUNK_BYTES), b"")))
    said = [
        f"format: {sniffed.format.name} ({sniffed.because})",
        f"requests: {summary.requests}",
        f"digest: {summary.digest}",
    ]
    return {"format": sniffed.format.name, "because": sniffed.because, "summary": summary.model_dump(mode="json")}, said


@contextmanager
def _bad_row_file(path: Path | None) -> Generator[Callable[[BadRow], None]]:
    """Yields what to call with each bad row: it becomes a line of JSON in the file, if there is one."""
    if path is None:
        yield lambda _bad: None
        return
    with path.open("w", encoding="utf-8") as file:
        yield lambda bad: print(
            json.dumps({"where": place(bad), "field": bad.field, "reason": bad.reason, "rows": bad.rows}), file=file
        )
