"""``verdraft workload``: bring in, cut, sample and give back workloads; all of it works on files alone."""

from pathlib import Path
from typing import Annotated, Any

import typer

from app.domain.vocabulary import NS_PER_S
from app.terminal import AsJson, ExistingFile, refusals, tell
from app.workloads.choices import Join, OnBadRow, Spread, Turns

app = typer.Typer(no_args_is_help=True, help="Bring in, make, look at, cut and upload frozen workloads.")

Output = Annotated[Path, typer.Option("-o", "--output", help="Where the trace goes.")]
Name = Annotated[str | None, typer.Option("--name", help="The workload's name; by default from the file's.")]
FormatName = Annotated[
    str | None, typer.Option("--format", help="The source's format, where the file does not say it.")
]
Load = Annotated[str, typer.Option("--load", help="The load point.")]
Corpus = Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="Real prompts for a trace of lengths.")]
HowToJoin = Annotated[Join | None, typer.Option(help="Whole prompts of about the length, or text cut into blocks.")]
AllowReuse = Annotated[bool, typer.Option("--allow-reuse", help="Use the corpus again when it is used up.")]


@app.command("import")
def import_workload(
    file: ExistingFile,
    *,
    format_name: FormatName = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and count everything, write nothing.")] = False,
    on_bad_row: Annotated[OnBadRow, typer.Option(help="What a row that cannot be kept does.")] = OnBadRow.REFUSE,
    bad_rows: Annotated[Path | None, typer.Option(help="Write every bad row's place and reason there.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop once so many rows are kept.")] = None,
    tokenizer: Annotated[str | None, typer.Option(help="tokenizer.json, its directory, or a bundled model.")] = None,
    corpus: Corpus = None,
    corpus_format: Annotated[str | None, typer.Option(help="The corpus' format.")] = None,
    join: HowToJoin = None,
    allow_reuse: AllowReuse = False,
    block_tokens: Annotated[int, typer.Option(min=1, help="Tokens of the prompt for each hash id.")] = 512,
    loads: Annotated[
        str | None, typer.Option(help="NAME[=RATE[@SECONDS|xREQUESTS]] or NAME=NclientsxREQUESTS, …")
    ] = None,
    arrival: Annotated[Spread | None, typer.Option(help="By default as recorded, or Poisson without times.")] = None,
    seed: Annotated[int, typer.Option(help="Of made arrivals.")] = 1,
    burstiness: Annotated[float, typer.Option(help="Of gamma arrivals: 1 is Poisson, below 1 burstier.")] = 1.0,
    warmup: Annotated[
        int | None, typer.Option(min=0, help="Rows for the warm-up; by default 16, at most a tenth.")
    ] = None,
    turns: Annotated[Turns, typer.Option(help="Which turns of a conversation are sent.")] = Turns.FIRST,
    think_s: Annotated[float, typer.Option(min=0, help="Seconds between the turns of a session.")] = 0.0,
    label: Annotated[list[str] | None, typer.Option(help="dimension=label for all rows, such as language=en.")] = None,
    max_tokens: Annotated[
        int, typer.Option(min=1, help="Where the source does not say how long answers may be.")
    ] = 256,
    name: Name = None,
    privacy_key: Annotated[Path | None, typer.Option(exists=True, help="Keep keyed hashes instead of prompts.")] = None,
    prompts: Annotated[Path | None, typer.Option(help="Privacy mode: the one file that gets the prompts.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="By default NAME.trace.jsonl, here.")] = None,
    as_json: AsJson = False,
) -> None:
    """Read somebody's trace or prompts and make a frozen trace of it; every row is kept or named with its reason."""
    from app.workloads.command import ImportWish, run_import

    with refusals(as_json=as_json):
        wish = ImportWish(
            file=file,
            format_name=format_name,
            dry_run=dry_run,
            on_bad_row=on_bad_row,
            bad_rows=bad_rows,
            limit=limit,
            tokenizer=tokenizer,
            corpus=corpus,
            corpus_format=corpus_format,
            join=join,
            allow_reuse=allow_reuse,
            block_tokens=block_tokens,
            loads=loads,
            arrival=arrival,
            seed=seed,
            burstiness=burstiness,
            warmup=warmup,
            turns=turns,
            think_s=think_s,
            labels=tuple(label or ()),
            max_tokens=max_tokens,
            name=name,
            privacy_key=privacy_key,
            prompts=prompts,
            output=output,
        )
        document, lines = run_import(wish)
    _say(document, lines, as_json=as_json)


@app.command("slice")
def slice_workload(
    trace: ExistingFile,
    *,
    load: Load,
    output: Output,
    from_s: Annotated[float, typer.Option(min=0, help="First second.")] = 0.0,
    to_s: Annotated[float | None, typer.Option(min=0, help="The second before which it ends.")] = None,
    count: Annotated[int | None, typer.Option(min=1, help="At most so many requests or sessions.")] = None,
    speed: Annotated[float, typer.Option(help="Time passes so many times faster.")] = 1.0,
    name: Name = None,
    as_json: AsJson = False,
) -> None:
    """Cut a time window or a number of requests out of a load point, and change its pace if wished."""
    from app.workloads.slicing import Window, slice_trace

    with refusals(as_json=as_json):
        to_ns = None if to_s is None else round(to_s * NS_PER_S)
        written = slice_trace(trace, output, Window(load, round(from_s * NS_PER_S), to_ns, count, speed), name)
        _tell_written(written, as_json=as_json)


@app.command("sample")
def sample_workload(
    trace: ExistingFile,
    *,
    load: Load,
    count: Annotated[int, typer.Option(min=1, help="How many requests or sessions.")],
    output: Output,
    seed: Annotated[int, typer.Option(help="Another seed gives another sample.")] = 1,
    name: Name = None,
    as_json: AsJson = False,
) -> None:
    """Take a fair sample of a load point's requests; the same seed always takes the same."""
    from app.workloads.slicing import sample_trace

    with refusals(as_json=as_json):
        _tell_written(sample_trace(trace, output, load, count=count, seed=seed, name=name), as_json=as_json)


@app.command("export")
def export_workload(
    source: ExistingFile,
    *,
    output: Output,
    trace: Annotated[Path | None, typer.Option(exists=True, help="Only rows that this trace was made of.")] = None,
    format_name: FormatName = None,
    as_json: AsJson = False,
) -> None:
    """Give a source's good rows back in their own format, every field of them."""
    from app.workloads.exporting import export_rows
    from app.workloads.importing import open_source
    from app.workloads.preparing import find_format

    with refusals(as_json=as_json):
        exported = export_rows(open_source(source, find_format(source, format_name).format), output, trace)
    tell({"rows": exported.rows, "of_good_rows": exported.good_rows, "output": str(output)}, as_json=as_json)


@app.command("make")
def make_workload(
    spec: ExistingFile,
    *,
    output: Output,
    tokenizer: Annotated[str | None, typer.Option(help="Make token ids of texts (form: text).")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a synthetic workload from a spec (YAML or JSON); the same spec always makes the same bytes."""
    from app.workloads.command import run_make

    with refusals(as_json=as_json):
        _tell_written(run_make(spec, output, tokenizer), as_json=as_json)


def _tell_written(written: Any, *, as_json: bool) -> None:
    from app.workloads.answers import trace_document
    from app.workloads.slicing import read_header

    tell(trace_document(read_header(written.path), written), as_json=as_json)


def _say(document: dict[str, Any], lines: list[str], *, as_json: bool) -> None:
    if as_json:
        tell(document, as_json=True)
        return
    for line in lines:
        typer.echo(line)
