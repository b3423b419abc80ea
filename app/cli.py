"""The command ``verdraft``: everything that needs only the HTTP API or a file.

Commands that touch engines join through the entry-point group ``verdraft.commands``, so that this package never
imports the worker. Each command imports what it needs: looking at a file must not wait for the analysis to load.
"""

from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from app import access_command, gate_command, plan_command, preflight_command
from app.accelerator_command import app as accelerator_app
from app.artifact_command import app as artifacts_app
from app.domain.errors import DomainError
from app.interop import cli as interop_cli
from app.manifests.cli import app as manifest_app
from app.terminal import EXIT_INTERRUPTED, EXIT_REFUSED, LOCAL_URL, AsJson, ExistingFile, Url, refusals, tell
from app.workloads.cli import app as workload_app

_CHUNK_BYTES = 1 << 20

ExperimentId = Annotated[str, typer.Argument(help="The digest, or its first 12 digits or more.")]


@cache
def _joined() -> dict[str, Any]:
    """The commands of other packages. Loading them takes a second, so it is done only when one is asked for."""
    groups = [get_group(entry.load()) for entry in entry_points(group="verdraft.commands")]
    return {name: command for group in groups for name, command in group.commands.items()}


class _Commands(TyperGroup):
    """Our own commands first, then those that have joined."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *_joined()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, cmd_name) or _joined().get(cmd_name)


app = typer.Typer(cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__)
app.add_typer(manifest_app, name="manifest")
app.add_typer(workload_app, name="workload")
app.add_typer(accelerator_app, name="accelerator")
app.add_typer(artifacts_app, name="artifacts")
access_command.register(app)
preflight_command.register(app)
gate_command.register(app)
plan_command.register(app)
interop_cli.register(app)


@workload_app.command("show")
def show_workload(file: ExistingFile) -> None:
    """Print a trace's header and how many requests each stratum has at each load; any size of file."""
    from app.domain.trace_scan import TraceScan, split_lines

    with refusals(), file.open("rb") as content:
        scan = TraceScan()
        for line in split_lines(iter(lambda: content.read(_CHUNK_BYTES), b"")):
            scan.take(line)
        summary = scan.summary()
    tell(summary.model_dump(mode="json", exclude_none=True), as_json=True)


@workload_app.command("upload")
def upload_workload(file: ExistingFile, *, as_json: AsJson = False, url: Url = LOCAL_URL) -> None:
    """Upload a trace; one that is already there is left as it is. ``store`` takes what is too large for this."""
    from app.client import Service

    with refusals(as_json=as_json), Service(url) as service:
        tell(service.upload_trace(file.read_bytes()), as_json=as_json)


@workload_app.command("store")
def store_workload(file: ExistingFile, *, as_json: AsJson = False) -> None:
    """Put a trace of any size straight into the service's database, on a host that has access to it."""
    from app.settings import Settings
    from app.workloads.progress import byte_progress
    from app.workloads.storing import store_file

    with refusals(as_json=as_json), byte_progress(file.stat().st_size, "storing") as progress:
        packed, created = store_file(file, Settings(), progress)
    summary = packed.summary
    answer = {"digest": summary.digest, "requests": summary.requests, "bytes": summary.bytes, "new": created}
    tell(answer | {"stored_bytes": len(packed.body)}, as_json=as_json)


@app.command()
def submit(
    file: ExistingFile,
    *,
    owner: Annotated[str | None, typer.Option("--owner", help="Who gets a fair share; `local` by default.")] = None,
    priority: Annotated[int | None, typer.Option("--priority", help="-10 to 10; the higher goes first.")] = None,
    as_json: AsJson = False,
    url: Url = LOCAL_URL,
) -> None:
    """Register a manifest and queue its blocks; the same manifest again gives the first experiment, unchanged."""
    from app.client import Service, page_url

    media_type = "application/json" if file.suffix == ".json" else "application/yaml"
    with refusals(as_json=as_json), Service(url) as service:
        experiment = service.submit(file.read_bytes(), media_type, owner, priority)
        known = {"id": experiment["id"], "state": experiment["state"], "page": page_url(service, experiment)}
        tell(known, as_json=as_json)


@app.command("watch")
def watch_experiment(experiment_id: ExperimentId, *, as_json: AsJson = False, url: Url = LOCAL_URL) -> None:
    """Follow an experiment to its verdict; Ctrl-C leaves it running. With --json progress goes to stderr."""
    from rich.console import Console

    from app.client import Service
    from app.watch import watch

    with refusals(as_json=as_json), Service(url) as service:
        report = watch(service, experiment_id, Console(stderr=as_json))
    if report is None:
        raise typer.Exit(EXIT_INTERRUPTED)
    if as_json:
        typer.echo(report.model_dump_json(indent=2))


@app.command("report")
def show_report(
    experiment_id: ExperimentId,
    *,
    as_json: AsJson = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="The whole report as Markdown.")] = False,
    as_html: Annotated[bool, typer.Option("--html", help="The whole report as one HTML file to print.")] = False,
    against: Annotated[
        str | None, typer.Option("--against", help="Another experiment whose pins these are held against.")
    ] = None,
    url: Url = LOCAL_URL,
) -> None:
    """Print the verdict table, or the whole report as JSON, Markdown or HTML; EXPIRED where its pins have changed."""
    from rich.console import Console

    from app.client import Service
    from app.tables import print_verdicts

    with refusals(as_json=as_json), Service(url) as service:
        if as_markdown or as_html:
            typer.echo(service.printed(experiment_id, "md" if as_markdown else "html", against), nl=False)
            return
        report = service.report(experiment_id, against)
    if as_json:
        typer.echo(report.model_dump_json(indent=2))
    else:
        print_verdicts(Console(), report)


@app.command()
def cancel(experiment_id: ExperimentId, *, as_json: AsJson = False, url: Url = LOCAL_URL) -> None:
    """Stop an experiment; evidence already recorded is kept."""
    from app.client import Service

    with refusals(as_json=as_json), Service(url) as service:
        experiment = service.cancel(experiment_id)
    tell({"id": experiment["id"], "state": experiment["state"]}, as_json=as_json)


@app.command()
def delete(
    experiment_id: ExperimentId,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Yes, its evidence too; there is no way back.")] = False,
    as_json: AsJson = False,
    url: Url = LOCAL_URL,
) -> None:
    """Delete an experiment that has ended, with its evidence, files and reports."""
    from app.client import Service

    with refusals(as_json=as_json), Service(url) as service:
        if not yes:
            named = service.experiment(experiment_id)
            message = f"{named['name']} ({named['id'][:12]}, {named['state']}) would be gone with all its evidence"
            raise DomainError.of("--yes", message, "say --yes; `verdraft bundle` keeps a copy")
        tell(service.delete(experiment_id), as_json=as_json)


@app.command("list")
def list_experiments(*, as_json: AsJson = False, url: Url = LOCAL_URL) -> None:
    """List all experiments, newest first."""
    from app.client import Service

    with refusals(as_json=as_json), Service(url) as service:
        experiments = list(service.experiments())
    if as_json:
        tell(experiments, as_json=True)
        return
    for experiment in experiments:
        blocks = f"{experiment['blocks_complete']}/{experiment['blocks_planned']} blocks"
        typer.echo(f"{experiment['id'][:12]}  {experiment['state']:<9}  {blocks:>12}  {experiment['name']}")


@app.command("bundle")
def download_bundle(
    experiment_id: ExperimentId,
    *,
    output: Annotated[Path, typer.Option("-o", "--output")],
    with_raw: Annotated[bool, typer.Option("--with-raw", help="Whole logs and raw reads too.")] = False,
    as_json: AsJson = False,
    url: Url = LOCAL_URL,
) -> None:
    """Download all that is needed to recompute an experiment's report offline; prints the digest over all of it."""
    from app.bundle.archive import root_of
    from app.client import Service

    with refusals(as_json=as_json), Service(url) as service:
        size = service.bundle(experiment_id, output, with_raw=with_raw)
        tell({"bundle": str(output), "bytes": size, "root": root_of(output)}, as_json=as_json)


@app.command("verify")
def verify_bundle(
    bundle: ExistingFile,
    report: Annotated[Path | None, typer.Option(help="Write the verified report here, as Markdown.")] = None,
) -> None:
    """Recompute every digest and number of a bundle, offline; exits with 1 and what is wrong where they disagree."""
    from app.bundle.verifying import verify
    from app.domain.report import Report
    from app.printed.markdown import markdown

    found = verify(bundle)
    for reason in found.problems:
        typer.echo(reason, err=True)
    if found.root is not None:
        tell({"root": found.root, "experiment": found.experiment, "accelerator": found.accelerator or "not known"})
    if found.problems:
        raise typer.Exit(EXIT_REFUSED)
    seen = f"{found.observations} observations of {found.runs} runs"
    if report is not None and found.report is not None:
        report.write_text(markdown(Report.model_validate_json(found.report)))
    typer.echo(f"{bundle}: digests agree, and the report follows from the evidence ({seen})")


@app.command("reanalyse")
def reanalyse_bundle(
    bundle: ExistingFile,
    *,
    output: Annotated[Path, typer.Option("-o", "--output")],
) -> None:
    """Write a bundle of an older analysis anew: its evidence verified and kept byte for byte, its report of now."""
    from app.bundle.reanalysing import reanalyse
    from app.domain.report import ANALYSIS_VERSION

    made = reanalyse(bundle, output)
    for reason in made.problems:
        typer.echo(reason, err=True)
    if made.problems:
        raise typer.Exit(EXIT_REFUSED)
    before, now = f"{made.root} (analysis {made.analysis_version})", f"{made.new_root} (analysis {ANALYSIS_VERSION})"
    tell({"was": before, "bundle": str(output), "root": now})


def main() -> None:
    """The console script."""
    app()
