"""docs/trace.md explains every field of the trace format, and its examples are read."""

import json
import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from app.domain.arrival import ArrivalKind, ArrivalNote
from app.domain.conversation import StructuredOutputs
from app.domain.trace import TraceHeader, TraceLoad, TraceRequest, parse_trace
from app.domain.trace_header import Generator
from app.domain.trace_request import SamplingOverrides, TurnLink

PAGE = (Path(__file__).parent.parent / "docs" / "trace.md").read_text()
BLOCKS = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
MODELS: tuple[type[BaseModel], ...] = (
    TraceHeader,
    TraceLoad,
    TraceRequest,
    TurnLink,
    SamplingOverrides,
    StructuredOutputs,
    Generator,
    ArrivalNote,
)


@pytest.mark.parametrize("name", sorted({field for model in MODELS for field in model.model_fields} | {*ArrivalKind}))
def test_every_field_is_explained(name: str) -> None:
    assert f"`{name}`" in PAGE


def test_the_examples_are_a_trace() -> None:
    header, request = (json.loads(block) for block in BLOCKS)
    header["loads"][0]["requests"] = 1
    lines = [header | {"warmup_requests": 0}, request]
    assert parse_trace("\n".join(map(json.dumps, lines)).encode()).header.name == "tasks"


@pytest.mark.parametrize(
    "row", re.findall(r"^\| `(\w+)` \|.*\| `(.*)` \|$", PAGE, re.MULTILINE), ids=lambda row: row[0]
)
def test_an_example_is_json(row: tuple[str, str]) -> None:
    if "…" not in row[1]:
        json.loads(row[1])
