"""The command ``verdraft``: everything that needs only the HTTP API or a file.

Commands that touch engines join through the entry-point group ``verdraft.commands``, so that
this package never imports the worker.
"""

import json
from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console

from app.client import Problem, Refused, Service, complaint, problem
from app.domain.errors import DomainError, ManifestRefused
from app.domain.manifest import Manifest, parse_manifest
from app.domain.schedule import plan
from app.domain.trace import Trace, parse_trace
from app.domain.vocabulary import VerdictWord
from app.tables import print_verdicts
from app.watch import page_url, watch

EXIT_REFUSED = 1
EXIT_INTERRUPTED = 130
EXIT_GATE = 3
LOCAL_URL = "http://127.0.0.1:8400"

ExistingFile = Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True)]
ExperimentId = Annotated[str, typer.Argument(help="The digest, or its first 12 digits or more.")]
Url = Annotated[str, typer.Option("--url", envvar="VERDRAFT_URL", help="Where the service is.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document; errors are problem details.")]

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__)
manifest_app = typer.Typer(no_args_is_help=True, help="Look at manifests without a service.")
workload_app = typer.Typer(no_args_is_help=True, help="Look at frozen workloads, and upload them.")
app.add_typer(manifest_app, name="manifest")
app.add_typer(workload_app, name="workload")


@manifest_app.command("validate")
def validate_manifest(file: ExistingFile, *, as_json: AsJson = False) -> None:
    """Check a manifest (YAML or JSON) and print its digest."""
    with refusals(as_json=as_json):
        manifest = read_manifest(file)
    _tell({"digest": manifest.digest, "name": manifest.name}, as_json=as_json)


@manifest_app.command("show")
def show_manifest(file: ExistingFile) -> None:
    """Print the manifest in full, its digest and the seeded order of arms in each block."""
    with refusals():
        manifest = read_manifest(file)
    order = {f"block {block.index + 1}": [session.arm for session in block.sessions] for block in plan(manifest)}
    _tell({"digest": manifest.digest, "manifest": manifest.model_dump(mode="json"), "schedule": order}, as_json=True)


@workload_app.command("show")
def show_workload(file: ExistingFile) -> None:
    """Print a trace's header and how many requests each stratum has at each load."""
    with refusals():
        trace = parse_trace(file.read_bytes())
    header = trace.header.model_dump(mode="json")
    _tell({"digest": trace.digest, "header": header, "strata": strata_sizes(trace)}, as_json=True)


@workload_app.command("upload")
def upload_workload(file: ExistingFile, *, url: Url = LOCAL_URL) -> None:
    """Upload a trace; one that is already there is left as it is."""
    with refusals(), Service(url) as service:
        _tell(service.upload_trace(file.read_bytes()))


@app.command()
def submit(file: ExistingFile, *, url: Url = LOCAL_URL) -> None:
    """Register a manifest and queue its blocks; the same manifest again gives the first experiment."""
    media_type = "application/json" if file.suffix == ".json" else "application/yaml"
    with refusals(), Service(url) as service:
        experiment = service.submit(file.read_bytes(), media_type)
        _tell({"id": experiment["id"], "state": experiment["state"], "page": page_url(service, experiment)})


@app.command("watch")
def watch_experiment(experiment_id: ExperimentId, *, url: Url = LOCAL_URL) -> None:
    """Follow an experiment to its verdict; Ctrl-C leaves it running."""
    with refusals(), Service(url) as service:
        report = watch(service, experiment_id, Console())
    if report is None:
        raise typer.Exit(EXIT_INTERRUPTED)


@app.command("report")
def show_report(experiment_id: ExperimentId, *, as_json: AsJson = False, url: Url = LOCAL_URL) -> None:
    """Print the verdict table, or the whole report as JSON."""
    with refusals(as_json=as_json), Service(url) as service:
        report = service.report(experiment_id)
    if as_json:
        typer.echo(report.model_dump_json(indent=2))
    else:
        print_verdicts(Console(), report)


@app.command()
def gate(experiment_id: ExperimentId, *, url: Url = LOCAL_URL) -> None:
    """Exit with 3 if any verdict is HURTS or INVALID; with 1 while there is no verdict."""
    with refusals(), Service(url) as service:
        report = service.report(experiment_id)
        if report.interim:
            raise DomainError.of("experiment", "blocks are missing, so there is no verdict", "wait for the last block")
    print_verdicts(Console(), report)
    if any(verdict.word in {VerdictWord.HURTS, VerdictWord.INVALID} for verdict in report.verdicts):
        raise typer.Exit(EXIT_GATE)


@app.command()
def cancel(experiment_id: ExperimentId, *, url: Url = LOCAL_URL) -> None:
    """Stop an experiment; evidence already recorded is kept."""
    with refusals(), Service(url) as service:
        experiment = service.cancel(experiment_id)
    _tell({"id": experiment["id"], "state": experiment["state"]})


@app.command("list")
def list_experiments(*, as_json: AsJson = False, url: Url = LOCAL_URL) -> None:
    """List all experiments, newest first."""
    with refusals(as_json=as_json), Service(url) as service:
        experiments = list(service.experiments())
    if as_json:
        _tell(experiments, as_json=True)
        return
    for experiment in experiments:
        blocks = f"{experiment['blocks_complete']}/{experiment['blocks_planned']} blocks"
        typer.echo(f"{experiment['id'][:12]}  {experiment['state']:<9}  {blocks:>12}  {experiment['name']}")


@app.command("bundle")
def download_bundle(
    experiment_id: ExperimentId, *, output: Annotated[Path, typer.Option("-o", "--output")], url: Url = LOCAL_URL
) -> None:
    """Download all that is needed to recompute an experiment's report offline."""
    with refusals(), Service(url) as service:
        content = service.bundle(experiment_id)
    output.write_bytes(content)
    _tell({"bundle": str(output), "bytes": len(content)})


@app.command("verify")
def verify_bundle(bundle: ExistingFile) -> None:
    """Recompute every number of a bundle, offline; exits with 1 and the reasons where they disagree."""
    from app.bundle import verify  # noqa: PLC0415  (brings the whole analysis; other commands start without it)

    problems = verify(bundle)
    for reason in problems:
        typer.echo(reason, err=True)
    if problems:
        raise typer.Exit(EXIT_REFUSED)
    typer.echo(f"{bundle}: digests agree, and the report follows from the evidence")


def read_manifest(file: Path) -> Manifest:
    """Parse a YAML or JSON file (JSON is YAML). Raises ``ManifestRefused``."""
    try:
        document = yaml.safe_load(file.read_bytes())
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        message = f"not YAML or JSON: {' '.join(str(error).split())}"
        raise ManifestRefused.of("(document)", message, "correct the syntax at the place named") from error
    return parse_manifest(document)


def strata_sizes(trace: Trace) -> dict[str, dict[str, int]]:
    """Stratum (``task=copy``) → load → number of requests."""
    sizes: dict[str, dict[str, int]] = {}
    for request in trace.requests:
        for dimension, label in sorted(request.strata.items()):
            of_load = sizes.setdefault(f"{dimension}={label}", {})
            of_load[request.load] = of_load.get(request.load, 0) + 1
    return dict(sorted(sizes.items()))


@contextmanager
def refusals(*, as_json: bool = False) -> Generator[None, None, None]:
    """Turn an error on purpose into words, or problem details, and exit status 1."""
    try:
        yield
    except Refused as error:
        _complain(error.problem, as_json=as_json)
        raise typer.Exit(EXIT_REFUSED) from error
    except DomainError as error:
        _complain(problem(error.title, *error.problems), as_json=as_json)
        raise typer.Exit(EXIT_REFUSED) from error


def _complain(refusal: Problem, *, as_json: bool) -> None:
    if as_json:
        _tell(refusal, as_json=True)
        return
    for line in complaint(refusal):
        typer.echo(line, err=True)


def _tell(answer: Any, *, as_json: bool = False) -> None:
    if as_json:
        typer.echo(json.dumps(answer, indent=2, ensure_ascii=False))
        return
    for key, value in answer.items():
        typer.echo(f"{key}: {value}")


def _join_commands() -> None:
    for entry in entry_points(group="verdraft.commands"):
        other: typer.Typer = entry.load()
        app.registered_commands.extend(other.registered_commands)
        app.registered_groups.extend(other.registered_groups)


_join_commands()


def main() -> None:
    """The console script."""
    app()
