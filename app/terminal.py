"""What commands share: their common options, answers as lines or JSON, refusals as words or problem details."""

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from app.domain.errors import DomainError
from app.problems import Problem, Refused, complaint, problem

EXIT_REFUSED = 1
EXIT_INTERRUPTED = 130
LOCAL_URL = "http://127.0.0.1:8400"

ExistingFile = Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True)]
Url = Annotated[str, typer.Option("--url", envvar="VERDRAFT_URL", help="Where the service is.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document; errors are problem details.")]


@contextmanager
def refusals(*, as_json: bool = False, status: int = EXIT_REFUSED) -> Generator[None, None, None]:
    """Turn an error on purpose into words, or problem details, and the exit status."""
    try:
        yield
    except Refused as error:
        complain(error.problem, as_json=as_json)
        raise typer.Exit(status) from error
    except DomainError as error:
        complain(problem(error.title, *error.problems), as_json=as_json)
        raise typer.Exit(status) from error


def complain(refusal: Problem, *, as_json: bool = False) -> None:
    """Print problem details: lines on stderr, or the JSON document that was asked for."""
    if as_json:
        tell(refusal, as_json=True)
        return
    for line in complaint(refusal):
        typer.echo(line, err=True)


def tell(answer: Any, *, as_json: bool = False) -> None:
    """Print an answer: ``name: value`` lines of a mapping, or JSON."""
    if as_json or not isinstance(answer, Mapping):
        typer.echo(json.dumps(answer, indent=2, ensure_ascii=False))
        return
    for key, value in answer.items():
        typer.echo(f"{key}: {value}")
