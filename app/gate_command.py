"""The command ``verdraft gate``: pass or fail a CI job by the words of an experiment, on a service or in a bundle."""

from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.domain.errors import DomainError
from app.domain.vocabulary import Regime
from app.terminal import EXIT_INTERRUPTED, LOCAL_URL, AsJson, Url, refusals

if TYPE_CHECKING:  # the analysis takes a second to load, and `--help` must not wait for it
    from app.domain.report import Report
    from app.domain.requirement import GateResult

BUNDLE_SUFFIX = ".tar.zst"
REQUIREMENTS = ("HELPS", "EQUIVALENT-or-better", "not-HURTS")


class GateExit(IntEnum):
    """What the exit status says."""

    MET = 0
    NO_VERDICT = 1
    """Blocks are missing, or the service or the bundle cannot be asked."""
    USAGE = 2
    NOT_MET = 3


class BundleRefused(DomainError):
    """The bundle's report does not follow from its evidence."""

    title = "The bundle cannot be trusted"


Experiment = Annotated[
    str, typer.Argument(help="A digest (12 digits or more) on the service, or a bundle file, read without any service.")
]
Require = Annotated[
    str, typer.Option("--require", help=f"What each verdict must be: {', '.join(REQUIREMENTS)}.", metavar="WORD")
]


def gate(
    experiment: Experiment,
    *,
    require: Require = "EQUIVALENT-or-better",
    arm: Annotated[str | None, typer.Option("--arm", help="This arm only; else every arm that is decided on.")] = None,
    workload: Annotated[str | None, typer.Option("--workload", help="This workload only.")] = None,
    stratum: Annotated[
        str | None, typer.Option("--stratum", help="These requests only, such as `task=edit`; costs some certainty.")
    ] = None,
    load: Annotated[str | None, typer.Option("--load", help="This load point only.")] = None,
    regime: Annotated[Regime | None, typer.Option("--regime", help="Loads of this regime only.")] = None,
    against: Annotated[
        str | None,
        typer.Option("--against", help="A baseline experiment, or its bundle: which pins and which words changed."),
    ] = None,
    exploratory: Annotated[
        bool, typer.Option("--exploratory", help="Accept words marked exploratory (fewer than five blocks).")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Follow the experiment to its end first.")] = False,
    markdown: Annotated[
        Path | None,
        typer.Option("--markdown", dir_okay=False, help="Append a summary here, such as $GITHUB_STEP_SUMMARY."),
    ] = None,
    as_json: AsJson = False,
    url: Url = LOCAL_URL,
) -> None:
    """Exit with 0 if every verdict meets the requirement, 3 if not, 1 while there is no verdict, 2 on a wrong option.

    EXPIRED and INVALID never pass. INCONCLUSIVE passes only `--require not-HURTS`, so it is not the default.
    """
    from app.domain.requirement import Choice, Requirement, Unknown, judge_requirement  # noqa: PLC0415  (as above)

    if require not in REQUIREMENTS:
        raise typer.BadParameter(f"{require!r} is none of {', '.join(REQUIREMENTS)}", param_hint="--require")
    if load is not None and regime is not None:
        raise typer.BadParameter("say --load or --regime, not both", param_hint="--regime")
    choice = Choice(arm=arm, workload=workload, stratum=stratum, load=load, regime=regime)
    with refusals(as_json=as_json, status=GateExit.NO_VERDICT):
        found = _report(experiment, url, wait=wait)
        baseline = None if against is None else _report(against, url, wait=False)
        try:
            result = judge_requirement(found, Requirement(require), choice, exploratory=exploratory, against=baseline)
        except Unknown as error:
            with refusals(as_json=as_json, status=GateExit.USAGE):
                raise error from None
    _tell(result, None if Path(experiment).is_file() else url, markdown, as_json=as_json)
    raise typer.Exit(GateExit.MET if result.met else GateExit.NOT_MET)


def _report(reference: str, url: str, *, wait: bool) -> "Report":
    """From a file of that name, verified first; else from the service, with whether its pins still hold there."""
    if Path(reference).is_file():
        return _verified(Path(reference))
    if reference.endswith(BUNDLE_SUFFIX):
        raise typer.BadParameter(f"there is no file {reference}")
    from rich.console import Console  # noqa: PLC0415  (as above)

    from app.client import Service  # noqa: PLC0415  (as above)
    from app.watch import watch  # noqa: PLC0415  (as above)

    with Service(url) as service:
        if wait and watch(service, reference, Console(stderr=True)) is None:
            raise typer.Exit(EXIT_INTERRUPTED)
        return service.report(reference)


def _verified(bundle: Path) -> "Report":
    from app.bundle.verifying import verify  # noqa: PLC0415  (as above)
    from app.domain.report import Report  # noqa: PLC0415  (as above)

    found = verify(bundle)
    if found.report is None:
        first = next(iter(found.problems), "it holds no report")
        remedy = f"`verdraft verify {bundle}` lists all {len(found.problems)} problems"
        raise BundleRefused.of(str(bundle), first, remedy)
    return Report.model_validate_json(found.report)


def _tell(result: "GateResult", url: str | None, summary: Path | None, *, as_json: bool) -> None:
    from app.printed.gate import gate_markdown  # noqa: PLC0415  (as above)

    page = None if url is None else f"{url.rstrip('/')}/experiments/{result.experiment[:12]}"
    if summary is not None:
        with summary.open("a", encoding="utf-8") as file:
            file.write(gate_markdown(result, page) + "\n")
    if as_json:
        typer.echo(result.model_dump_json(indent=2))
        return
    for line in result.lines:
        was = f" (was {line.baseline_word})" if line.changed else ""
        place = " / ".join((line.arm, line.workload, line.load, *([] if line.stratum == "all" else [line.stratum])))
        typer.echo(f"{'ok  ' if line.met else 'FAIL'} {place}: {line.word}{was}: {line.why}")
    if result.against is not None:
        for pin in result.against.pins:
            typer.echo(f"pin {pin.what}: was {pin.was}, is {pin.now}")
        typer.echo(result.against.sentence)
    typer.echo(result.sentence, err=not result.met)


def register(app: typer.Typer) -> None:
    """Join the command to the others."""
    app.command("gate")(gate)
