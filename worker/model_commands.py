"""``verdraft model …``: the models of this host as a manifest names them, and what their files say."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from app.domain.capability import ModelFacts
from app.settings import Settings
from app.terminal import AsJson, refusals, tell
from worker.model_differences import VocabularyDifference, differences, vocabulary_difference
from worker.model_files.tokenizer import vocabulary
from worker.models import BrokenModel, FoundModel, find_model, survey_models

Reference = Annotated[str, typer.Argument(help="A pinned reference, or the alias of a local model.")]

app = typer.Typer(no_args_is_help=True, help="Models of this host.")


@app.command("list")
def list_models(*, as_json: AsJson = False) -> None:
    """Show each model as a manifest names it, and of what cannot be used the reason."""
    found = list(survey_models(Settings()))
    if as_json:
        tell([_listed(model) for model in found], as_json=True)
        return
    for line in (line for model in found for line in _lines(model)):
        typer.echo(line)


@app.command("inspect")
def inspect_model(
    ref: Reference,
    other: Annotated[str | None, typer.Argument(help="Another model: only what differs is shown.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Print what a model's files say; with two models, where tokenizer, template, rope or context differ."""
    settings = Settings()
    with refusals(as_json=as_json):
        first = find_model(ref, settings)
        second = None if other is None else find_model(other, settings)
    if second is not None:
        _tell_differences(first, second, as_json=as_json)
    elif as_json:
        typer.echo(first.facts.model_dump_json(indent=2))
    else:
        for line in _described(first.facts):
            typer.echo(line)


def _listed(model: FoundModel | BrokenModel) -> dict[str, Any]:
    if isinstance(model, BrokenModel):
        return {"name": model.name, "usable": False, "reason": str(model.refusal)}
    facts = model.facts.model_dump(mode="json", include={"ref", "alias", "bytes", "parameters", "not_known"})
    return {"name": model.facts.alias or model.facts.ref, "usable": True, **facts}


def _lines(model: FoundModel | BrokenModel) -> Iterator[str]:
    if isinstance(model, BrokenModel):
        yield f"{model.name}: cannot be used"
        yield from (f"  {p.field} {p.message} ({p.remedy})" for p in model.refusal.problems)
        return
    facts = model.facts
    parameters = "unknown" if facts.parameters is None else f"{facts.parameters:,}"
    yield facts.ref
    yield f"  {', '.join(facts.architectures) or facts.model_type}: {parameters} parameters, {facts.bytes:,} bytes"
    yield from (f"  {fact} is not known: {reason}" for fact, reason in facts.not_known.items())


def _described(facts: ModelFacts) -> Iterator[str]:
    """Field by field; what the files do not say is left out."""
    for name, value in facts.model_dump(mode="json", exclude={"not_known"}).items():
        if isinstance(value, dict):
            yield from (f"{name}.{key}: {_text(inner)}" for key, inner in value.items())
        elif value not in (None, []):
            yield f"{name}: {_text(value)}"
    yield from (f"{fact} is not known: {reason}" for fact, reason in facts.not_known.items())


def _tell_differences(first: FoundModel, second: FoundModel, *, as_json: bool) -> None:
    groups = differences(first.facts, second.facts)
    tokens = _token_difference(first, second)
    if as_json:
        tell(_as_document(first, second, groups, tokens), as_json=True)
        return
    typer.echo(f"first:  {first.facts.ref}\nsecond: {second.facts.ref}")
    for group, differing in groups.items():
        for name, (one, another) in differing.items():
            typer.echo(f"{group}, {name}:\n  first:  {_text(one)}\n  second: {_text(another)}")
    if tokens is not None:
        typer.echo(f"{tokens.ids:,} ids stand for different tokens, the first of them:")
        for number, one, another in tokens.examples:
            typer.echo(f"  {number}: {one} | {another}")
    if not groups:
        typer.echo("no difference in tokenizer, special tokens, chat template, rope and context")


def _token_difference(first: FoundModel, second: FoundModel) -> VocabularyDifference | None:
    """Only where both vocabularies are known and differ."""
    digests = {first.facts.vocabulary_sha256, second.facts.vocabulary_sha256}
    if len(digests) == 1 or None in digests:
        return None
    return vocabulary_difference(vocabulary(first.tree), vocabulary(second.tree))


def _as_document(
    first: FoundModel, second: FoundModel, groups: dict[str, Any], tokens: VocabularyDifference | None
) -> dict[str, Any]:
    document = {"first": first.facts.ref, "second": second.facts.ref, "differences": groups}
    if tokens is not None:
        document["tokens"] = {"ids": tokens.ids, "examples": tokens.examples}
    return document


def _text(value: Any) -> str:
    if value is None:
        return "(none)"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
