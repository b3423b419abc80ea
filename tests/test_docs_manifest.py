import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel

from app.domain.errors import ManifestRefused
from app.domain.manifest import Manifest, parse_manifest
from app.domain.vocabulary import BASELINE_ARM

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


def _fields(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, info in model.model_fields.items():
        yield prefix + name
        items = [a for a in get_args(info.annotation) if isinstance(a, type) and issubclass(a, BaseModel)]
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from _fields(info.annotation, f"{prefix}{name}.")
        for item in items:
            yield from _fields(item, f"{prefix}{name}[].")


def test_every_field_is_documented_and_nothing_else() -> None:
    documented = re.findall(r"^\| `([a-z0-9_.\[\]]+)` \|", (ROOT / "docs/manifest.md").read_text(), re.MULTILINE)
    assert sorted(documented) == sorted(_fields(Manifest))


def test_optional_is_said_of_exactly_the_fields_with_a_default() -> None:
    lines = re.findall(r"^\| `([a-z0-9_]+)` \| (.*)$", (ROOT / "docs/manifest.md").read_text(), re.MULTILINE)
    said = {name for name, rest in lines if rest.startswith("optional")}
    assert said == {name for name, info in Manifest.model_fields.items() if not info.is_required()}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_are_valid(path: Path) -> None:
    assert parse_manifest(yaml.safe_load(path.read_text())).baseline.name == BASELINE_ARM


def test_a_single_arm_file_means_that_arm_against_target_only() -> None:
    manifest = parse_manifest(_single_arm())
    assert [arm.name for arm in manifest.arms] == [BASELINE_ARM, "ngram"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"target_model": "org/name@main"}, "target_model"),
        ({"colour": "red"}, "colour"),
        ({"blocks": 0}, "blocks"),
        (
            {"speculation": {"method": "ngram", "num_speculative_tokens": 0}},
            "arms[1].speculation.num_speculative_tokens",
        ),
    ],
)
def test_a_bad_value_is_refused_by_its_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(ManifestRefused) as refused:
        parse_manifest(_single_arm() | change)
    assert field in [problem.field for problem in refused.value.problems]


def _single_arm() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "examples/single-arm.yaml").read_text())
