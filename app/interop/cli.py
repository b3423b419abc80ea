"""``verdraft export``, ``import-result`` and ``imports``: other tools' formats on the command line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from app.domain.errors import DomainError
from app.terminal import LOCAL_URL, AsJson, ExistingFile, Url, refusals, tell

WHAT = "An experiment's digest (its first 12 digits or more), or a bundle on this disk."
FORMAT = "csv, jsonl, parquet-requests, parquet-chunks, vllm or llm-d."
FIRST = ("ttft", "tpot", "itl", "e2e")
RUN = "Only this run: block/arm/workload/load/attempt. Of vllm and llm-d its bare JSON, else a zip of all."


def export(
    source: Annotated[str, typer.Argument(metavar="EXPERIMENT|BUNDLE", help=WHAT)],
    *,
    format_name: Annotated[str, typer.Option("--format", help=FORMAT)],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where it goes; there only when it is complete.")],
    run: Annotated[str | None, typer.Option(help=RUN)] = None,
    url: Url = LOCAL_URL,
    as_json: AsJson = False,
) -> None:
    """Write an experiment's raw evidence in a format of other tools; from a bundle it needs no service."""
    from app.interop.client import InteropService
    from app.interop.offline import export_bundle

    with refusals(as_json=as_json):
        if Path(source).is_file():
            size = _write(export_bundle(Path(source), format_name, run), output)
        else:
            with InteropService(url) as service, service.export(source, format_name, run) as pieces:
                size = _write(pieces, output)
    tell({"export": str(output), "format": format_name, "bytes": size}, as_json=as_json)


def import_result(
    file: ExistingFile,
    *,
    label: Annotated[str, typer.Option("--label", help="What to call it, such as `ngram k=4, host B`.")],
    experiment: Annotated[str | None, typer.Option("--experiment", help="Beside which it is shown.")] = None,
    url: Url = LOCAL_URL,
    as_json: AsJson = False,
) -> None:
    """Keep a result of vllm bench serve, GuideLLM or AIPerf for reading beside ours; nothing of it was controlled."""
    from app.interop.client import InteropService

    with refusals(as_json=as_json), InteropService(url) as service:
        stored = service.add_import(file.read_bytes(), label, experiment)
    tell(stored if as_json else _told(stored), as_json=as_json)


def imports(
    *,
    experiment: Annotated[str | None, typer.Option("--experiment", help="Only those beside it.")] = None,
    forget: Annotated[str | None, typer.Option("--forget", help="Delete the one of this digest.")] = None,
    url: Url = LOCAL_URL,
    as_json: AsJson = False,
) -> None:
    """List the imported results, newest first."""
    from app.interop.client import InteropService

    with refusals(as_json=as_json), InteropService(url) as service:
        if forget is not None:
            service.remove_import(_whole(forget, service.imports()))
        found = service.imports(experiment)
    if as_json:
        tell(found, as_json=True)
        return
    for stored in found:
        for line in _lines(stored):
            typer.echo(line)


def register(app: typer.Typer) -> None:
    """Join the commands to the others."""
    app.command("export")(export)
    app.command("import-result")(import_result)
    app.command("imports")(imports)


def _write(pieces: Iterator[bytes], output: Path) -> int:
    unfinished = output.with_name(f"{output.name}.part")
    try:
        with unfinished.open("wb") as file:
            size = sum(map(file.write, pieces))
        unfinished.replace(output)
    finally:
        unfinished.unlink(missing_ok=True)
    return size


def _told(stored: dict[str, Any]) -> dict[str, Any]:
    result = stored["result"]
    return {
        "digest": stored["digest"],
        "tool": " ".join(filter(None, (result["tool"], result["tool_version"]))),
        "label": result["label"],
        "status": result["status"],
        "benchmarks": len(result["parts"]),
        "ignored fields": result["ignored_fields"],
    }


def _lines(stored: dict[str, Any]) -> Iterator[str]:
    result = stored["result"]
    beside = (stored["experiment_id"] or "no experiment")[:13]
    yield f"{stored['digest'][:12]}  {result['tool']:<16}  {beside:<13}  {result['label']}  ({result['status']})"
    for part in result["parts"]:
        summaries: dict[str, Any] = part["summaries"]
        named = [*(n for n in FIRST if n in summaries), *(n for n in summaries if n not in FIRST)]
        figures = (f"{name} {_middle(summaries[name])}" for name in named)
        yield f"    {part['load']}: {', '.join(figures)}"


def _middle(summary: dict[str, Any]) -> str:
    """The median where the tool has it, or its mean."""
    statistics: dict[str, float] = summary["statistics"]
    name = next((n for n in ("p50", "median", "mean") if n in statistics), next(iter(statistics)))
    return f"{name} {statistics[name]:.4g} {summary['unit']}"


def _whole(prefix: str, known: list[dict[str, Any]]) -> str:
    """The one digest that begins so."""
    found = [stored["digest"] for stored in known if stored["digest"].startswith(prefix)]
    if len(found) != 1:
        message = f"{prefix[:64]} begins {len(found)} digests of imported files"
        raise DomainError.of("forget", message, "give more digits of one; `verdraft imports` lists them")
    return found[0]
