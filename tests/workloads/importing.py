"""Imports bytes in a test's own folder."""

from pathlib import Path
from typing import Any

from app.domain.trace import Trace, parse_trace
from app.settings import PROJECT_ROOT
from app.workloads.choices import OnBadRow
from app.workloads.drafting import Choices, Drafter
from app.workloads.filling import Filling, Placeholders
from app.workloads.importing import open_source
from app.workloads.loads import Timing, parse_loads
from app.workloads.readers.registry import format_named
from app.workloads.tokens import Tokens
from app.workloads.trace_import import Imported, Target, import_trace

TOKENIZER = PROJECT_ROOT / "models" / "tiny-target" / "tokenizer.json"
FIXTURES = PROJECT_ROOT / "tests" / "fixtures" / "workloads"


def tokens() -> Tokens:
    """The bundled model's tokenizer."""
    return Tokens(TOKENIZER)


def imported(
    folder: Path,
    name: str,
    content: bytes,
    *,
    choices: Choices | None = None,
    filling: Filling | None = None,
    counter: Tokens | None = None,
    loads: str | None = None,
    on_bad_row: OnBadRow = OnBadRow.REFUSE,
    limit: int | None = None,
    target: dict[str, Any] | None = None,
    **timing: Any,
) -> Imported:
    """Import the bytes; the trace is ``out.jsonl`` in the folder."""
    path = folder / "source.file"
    path.write_bytes(content)
    drafter = Drafter(choices or Choices(), filling or Placeholders(512), counter)
    made = Timing(parse_loads(loads), **timing) if loads else Timing(**timing)
    goal = Target(folder / "out.jsonl", "made", **(target or {}))
    return import_trace(open_source(path, format_named(name)), drafter, made, goal, on_bad_row=on_bad_row, limit=limit)


def trace_of(result: Imported) -> Trace:
    """The trace that an import wrote, checked as every trace is."""
    content = result.trace.path.read_bytes()
    trace = parse_trace(content)
    assert trace.digest == result.trace.digest
    assert trace.encode() == content
    return trace


def timed(rows: int) -> bytes:
    """The Azure sample's first rows with its times and with short lengths, so that a trace of it is small."""
    lines = (FIXTURES / "azure_llm_conv_3000.csv").read_text().splitlines()[: rows + 1]
    short = [f"{line.split(',')[0]},{1 + number % 40},{1 + number % 9}" for number, line in enumerate(lines[1:])]
    return "\r\n".join([lines[0], *short, ""]).encode()
