"""docs/manifest.md says what the format is: every field once, what is optional, and examples that are valid."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import jsonschema
import pytest
import yaml
from pydantic import BaseModel

from app.domain.errors import ManifestRefused
from app.domain.manifest import RUNS_MAX, Manifest, parse_manifest
from app.domain.proposer import METHODS_OFFERED
from app.domain.vocabulary import BASELINE_ARM
from app.schemas import written_manifest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/manifest.md").read_text()
ROWS = re.findall(r"^\| `([a-z0-9_.\[\]]+)` \| (.*)$", PAGE, re.MULTILINE)
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


def _fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, bool]]:
    """Every field of the frozen form, and whether it is required."""
    for name, info in model.model_fields.items():
        yield prefix + name, info.is_required()
        for inner, many in _models(info.annotation):
            yield from _fields(inner, f"{prefix}{name}{'[]' if many else ''}.")


def _models(annotation: Any) -> Iterator[tuple[type[BaseModel], bool]]:
    for item in (annotation, *get_args(annotation)):
        if isinstance(item, type) and issubclass(item, BaseModel):
            yield item, get_origin(annotation) is tuple


def test_every_field_is_documented_and_nothing_else() -> None:
    assert sorted(name for name, _ in ROWS) == sorted(name for name, _ in _fields(Manifest))


def test_optional_is_said_of_exactly_the_fields_with_a_default() -> None:
    said = {name for name, rest in ROWS if rest.startswith("optional")}
    assert said == {name for name, required in _fields(Manifest) if not required}


def test_every_method_and_bound_is_named() -> None:
    assert all(f"`{method}`" in PAGE for method in METHODS_OFFERED)
    assert f"{RUNS_MAX:,}" in PAGE


def test_the_two_ways_to_write_one_manifest_are_the_same() -> None:
    blocks = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
    rest = {k: v for k, v in _example("single-arm.yaml").items() if k not in {"speculation", "draft_or_speculator"}}
    assert len({parse_manifest(rest | block).digest for block in blocks}) == 1


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_are_valid(path: Path) -> None:
    assert parse_manifest(_example(path.name)).baseline.name == BASELINE_ARM


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_published_schema_takes_what_people_write(path: Path) -> None:
    validator = jsonschema.Draft202012Validator(written_manifest())
    validator.validate(_example(path.name))
    assert not validator.is_valid(_example(path.name) | {"surprise": 1})


def test_the_grid_of_the_example_is_expanded() -> None:
    names = [arm.name for arm in parse_manifest(_example("several-arms.yaml")).arms]
    assert {"draft-k2", "draft-k4"} <= set(names)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"target_model": "org/name@main"}, "target_model"),
        ({"colour": "red"}, "colour"),
        ({"blocks": 0}, "blocks"),
        ({"speculation": {"method": "ngram", "num_speculative_tokens": 0}}, "speculation.num_speculative_tokens"),
    ],
)
def test_a_bad_value_is_refused_by_its_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(ManifestRefused) as refused:
        parse_manifest(_example("single-arm.yaml") | change)
    assert field in [problem.field for problem in refused.value.problems]


def _example(name: str) -> dict[str, Any]:
    return yaml.safe_load((ROOT / "examples" / name).read_text())
