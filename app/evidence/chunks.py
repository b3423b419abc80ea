"""The chunks of a run's answers as zstd Parquet, one row each: raw evidence that stands beside the observations.

It is stored under its digest and never changed, so that an observation can be held to it.
"""

from collections.abc import Iterable, Iterator
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from app.domain.observation import RequestObservation

RAW_CHUNKS: Final = "raw-chunks"
"""The artifact's kind."""
REQUESTS_A_GROUP: Final = 500
SCHEMA: Final = pa.schema(
    [
        pa.field("request_id", pa.string()),
        pa.field("chunk", pa.int32()),
        pa.field("at_ns", pa.int64()),
        pa.field("tokens", pa.int64()),
        pa.field("token_ids", pa.list_(pa.int64())),
    ]
)
_HOW: Final[dict[str, Any]] = {"use_dictionary": ["request_id"], "column_encoding": {"at_ns": "DELTA_BINARY_PACKED"}}

Chunks = list[tuple[int, int, int, list[int]]]
"""(number, time, tokens, their ids) of each chunk of an answer."""


def write_chunks(path: Path, observations: Iterable[RequestObservation]) -> None:
    """One row for each chunk with tokens, in the order of the observations."""
    left = iter(observations)
    with pq.ParquetWriter(path, SCHEMA, compression="zstd", **_HOW) as writer:
        while portion := [*islice(left, REQUESTS_A_GROUP)]:
            rows = [(o.request_id, *chunk) for o in portion for chunk in chunks_of(o)]
            columns = zip(*rows, strict=True) if rows else ([] for _ in SCHEMA)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
            writer.write_table(pa.table(arrays, schema=SCHEMA))


def chunks_of(observation: RequestObservation) -> Chunks:
    """An answer's chunks. Where the engine gave no token ids, they are empty."""
    places = pairwise(accumulate(observation.chunk_tokens, initial=0))
    numbered = enumerate(zip(observation.chunk_ns, observation.chunk_tokens, places, strict=True))
    return [
        (number, at_ns, tokens, list(observation.token_ids[start:end]))
        for number, (at_ns, tokens, (start, end)) in numbered
    ]


def unlike_chunks(path: Path, observations: Iterable[RequestObservation]) -> Iterator[str]:
    """The requests whose chunks are not those of the file. Raises what pyarrow raises of a file that is none."""
    found: dict[str, Chunks] = {}
    with pq.ParquetFile(path) as file:
        if not file.schema_arrow.equals(SCHEMA):
            raise ValueError(f"its columns are not {', '.join(SCHEMA.names)}")
        for batch in file.iter_batches():
            for request_id, *chunk in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                found.setdefault(request_id, []).append((chunk[0], chunk[1], chunk[2], chunk[3]))
    for observation in observations:
        if found.pop(observation.request_id, []) != chunks_of(observation):
            yield observation.request_id
    yield from found
