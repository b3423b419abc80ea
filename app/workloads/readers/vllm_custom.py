"""vLLM's custom dataset: JSON Lines of a prompt and, where it is known, the length of the answer. No times."""

from collections.abc import Iterator
from typing import BinaryIO

from app.workloads.readers.documents import read_json_lines, write_json_lines
from app.workloads.readers.fields import optional_count, text
from app.workloads.readers.format import Format
from app.workloads.record import Item, Record, Row, RowRefused


def read(file: BinaryIO) -> Iterator[Item]:
    """Every prompt of the file."""
    return read_json_lines(file, parse)


def parse(row: Row, line: int) -> Record:
    """A prompt. Pictures (``custom_mm``) are refused: only text is replayed."""
    if row.get("image_files"):
        raise RowRefused("image_files", "holds pictures, and only text is replayed")
    return Record(line, row, prompt=text(row, "prompt"), output_tokens=optional_count(row, "output_tokens"))


FORMAT = Format("vllm-custom", "vLLM custom dataset, JSON Lines", read, write_json_lines)
