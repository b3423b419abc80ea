"""The formats an experiment can be exported in, by name."""

from functools import partial
from typing import Final

from app.domain.errors import NotFound
from app.interop.exports.as_csv import CsvEncoder
from app.interop.exports.as_jsonl import JsonlEncoder
from app.interop.exports.as_llmd import llmd_report
from app.interop.exports.as_parquet import ChunksEncoder, RequestsEncoder
from app.interop.exports.as_vllm import vllm_document
from app.interop.exports.documents import Describe, DocumentEncoder, ZipEncoder
from app.interop.exports.encoder import ExportFormat

PARQUET: Final = "application/vnd.apache.parquet"


def _documents(name: str, describe: Describe) -> ExportFormat:
    bare, archive = partial(DocumentEncoder, describe=describe), partial(ZipEncoder, describe=describe)
    single = ExportFormat(name, "application/json", "json", bare, whole_runs=True)
    return ExportFormat(name, "application/zip", "zip", archive, whole_runs=True, one_run=single)


FORMATS: Final = {
    chosen.name: chosen
    for chosen in (
        ExportFormat("csv", "text/csv", "csv", CsvEncoder),
        ExportFormat("jsonl", "application/jsonl", "jsonl", JsonlEncoder),
        ExportFormat("parquet-requests", PARQUET, "requests.parquet", RequestsEncoder),
        ExportFormat("parquet-chunks", PARQUET, "chunks.parquet", ChunksEncoder),
        _documents("vllm", vllm_document),
        _documents("llm-d", llmd_report),
    )
}


def format_of(name: str, *, one_run: bool) -> ExportFormat:
    """The format of that name, for a whole experiment or for one of its runs; raises ``NotFound``."""
    chosen = FORMATS.get(name)
    if chosen is None:
        raise NotFound.of("format", f"there is no export {name[:64]!r}", f"choose one of {', '.join(FORMATS)}")
    return chosen.one_run or chosen if one_run else chosen


def file_name(experiment: str, chosen: ExportFormat) -> str:
    """What an export is called where the reader does not say."""
    return f"verdraft-{experiment[:12]}-{chosen.name}.{chosen.suffix}"
