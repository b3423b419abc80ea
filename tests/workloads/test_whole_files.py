"""The public samples, counted a second time by other means."""

import csv
import json
from datetime import datetime
from fractions import Fraction
from pathlib import Path

import pytest

from app.workloads.drafting import Choices, Drafter
from app.workloads.filling import LengthsOnly
from app.workloads.importing import Reading, open_source, read_rows
from app.workloads.readers.sniffing import sniff
from app.workloads.spool import Discard
from tests.workloads.reading import items, records, written

FIXTURES = Path(__file__).parent.parent / "fixtures" / "workloads"
AZURE = FIXTURES / "azure_llm_conv_3000.csv"
MOONCAKE = FIXTURES / "mooncake_conversation_1000.jsonl"
SPEC_BENCH = FIXTURES / "spec_bench_shape.jsonl"


def reading_of(path: Path) -> Reading:
    return read_rows(open_source(path, sniff(path).format), Drafter(Choices(), LengthsOnly()), Discard())


def azure_seconds(text: str) -> Fraction:
    whole, fraction = text.split(".")
    days = (datetime.fromisoformat(whole) - datetime(2023, 1, 1)).total_seconds()  # noqa: DTZ001
    return Fraction(int(days)) + Fraction(int(fraction), 10 ** len(fraction))


def test_azure_whole() -> None:
    with AZURE.open(newline="") as file:
        rows = list(csv.DictReader(file))
    tally = reading_of(AZURE).tally
    times = [azure_seconds(row["TIMESTAMP"]) for row in rows]
    assert (tally.read, tally.kept, tally.skipped) == (len(rows), len(rows), 0) == (3000, 3000, 0)
    assert tally.input_tokens == sum(int(row["ContextTokens"]) for row in rows)
    assert tally.output_tokens == sum(int(row["GeneratedTokens"]) for row in rows)
    assert tally.span_ns == (max(times) - min(times)) * 10**9


def test_azure_comes_back_byte_for_byte() -> None:
    content = AZURE.read_bytes()
    assert written("azure", [record.row for record in records("azure", content)]) == content


def test_mooncake_whole() -> None:
    rows = [json.loads(line) for line in MOONCAKE.read_text().splitlines()]
    tally = reading_of(MOONCAKE).tally
    assert (tally.read, tally.kept, tally.skipped) == (len(rows), len(rows), 0) == (1000, 1000, 0)
    assert tally.input_tokens == sum(row["input_length"] for row in rows)
    assert tally.output_tokens == sum(row["output_length"] for row in rows)
    assert tally.span_ns == (max(row["timestamp"] for row in rows) - min(row["timestamp"] for row in rows)) * 10**6


def test_mooncake_comes_back_byte_for_byte() -> None:
    content = MOONCAKE.read_bytes()
    assert written("mooncake", [record.row for record in records("mooncake", content)]) == content


def test_spec_bench_shape_whole() -> None:
    rows = [json.loads(line) for line in SPEC_BENCH.read_text().splitlines()]
    reading = reading_of(SPEC_BENCH)
    assert (reading.tally.read, reading.tally.kept) == (len(rows), len(rows))
    for category in {row["category"] for row in rows}:
        assert reading.strata[f"task={category}"] == sum(row["category"] == category for row in rows)
    assert reading.strata["turns=single"] == len(rows)
    assert sum(reading.remarks.values()) == len(rows) + sum(len(row["turns"]) > 1 for row in rows)


@pytest.mark.parametrize(("path", "name"), [(AZURE, "azure"), (MOONCAKE, "mooncake"), (SPEC_BENCH, "spec-bench")])
def test_every_field_of_every_row_comes_back(path: Path, name: str) -> None:
    content = path.read_bytes()
    rows = [record.row for record in records(name, content)]
    assert len(rows) == len(items(name, content))
    again = [record.row for record in records(name, written(name, rows))]
    assert again == rows
