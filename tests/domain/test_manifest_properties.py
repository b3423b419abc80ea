"""What must hold for every manifest: one canonical form, one digest for one meaning, and no crash."""

import json
import random
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.errors import ManifestRefused
from app.domain.manifest import Manifest, parse_manifest
from app.intake import decode_json, decode_yaml
from tests.domain.manifest_values import (
    ONE_VALUE,
    VALUES,
    Path,
    field_of,
    full_document,
    leaves,
    lossy_document,
    value_at,
    with_value,
)

DOCUMENTS = {"full": full_document(), "lossy": lossy_document()}
FULL = DOCUMENTS["full"]
DIGESTS = {name: parse_manifest(document).digest for name, document in DOCUMENTS.items()}
MUTABLE = [
    (name, path)
    for name, document in DOCUMENTS.items()
    for path in leaves(document)
    if field_of(path) not in ONE_VALUE and not (name == "lossy" and path[0] == "purpose")
]
ROUGH = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


def _fixed(document: dict[str, Any], path: Path) -> bool:
    """Values that other values of the same document depend on."""
    field, arm = field_of(path), document["arms"][path[1]] if path[0] == "arms" else {}
    if field == "arms[].name":
        return arm["name"] in {"target-only", "ngram", "suffix"}
    if field == "workloads[].quality.scorer":
        return path[1] != 0
    if field == "arms[].speculation.method":
        return arm["name"] != "plain"
    if field == "arms[].speculation.num_speculative_tokens":
        return "synthetic_acceptance_rates" in arm["speculation"]
    return field == "arms[].speculation.rejection_sampling" and arm["name"] != "plain"


CHANGES = [(name, path) for name, path in MUTABLE if not _fixed(DOCUMENTS[name], path)]


def _label(change: tuple[str, Path]) -> str:
    return f"{change[0]}:{'.'.join(map(str, change[1]))}"


def reordered(value: Any, order: random.Random) -> Any:
    """The same document with the keys of every object in another order."""
    if isinstance(value, dict):
        return {key: reordered(value[key], order) for key in order.sample(list(value), len(value))}
    return [reordered(item, order) for item in value] if isinstance(value, list) else value


def test_every_field_of_the_format_is_stated_in_these_documents() -> None:
    stated = {field_of(path) for document in DOCUMENTS.values() for path in leaves(document)}
    schema = Manifest.model_json_schema()
    assert {f"arms[].speculation.{key}" for key in schema["$defs"]["Speculation"]["properties"]} <= stated
    assert {field.partition(".")[0].removesuffix("[]") for field in stated} == set(schema["properties"])
    assert {f"workloads[].{key}" for key in schema["$defs"]["WorkloadRef"]["properties"]} - stated == {
        "workloads[].quality"  # an object, whose own fields are
    }
    assert {f"workloads[].quality.{key}" for key in schema["$defs"]["Quality"]["properties"]} <= stated
    for part in ("Serving", "Sampling", "Hardware", "Software", "Files", "Slo", "Margins", "Family"):
        assert {f"{part.lower()}.{key}" for key in schema["$defs"][part]["properties"]} <= stated
    assert stated - ONE_VALUE <= set(VALUES)


@pytest.mark.parametrize("change", CHANGES, ids=_label)
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_another_value_is_another_manifest(change: tuple[str, Path], data: st.DataObject) -> None:
    name, path = change
    before = DOCUMENTS[name]
    value = data.draw(VALUES[field_of(path)].filter(lambda value: value != value_at(before, path)))
    after = parse_manifest(with_value(before, path, value))
    assert after.digest != DIGESTS[name]
    again = parse_manifest(json.loads(after.canonical()))
    assert (again, again.canonical()) == (after, after.canonical())


@settings(max_examples=20, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(DOCUMENTS)), st.integers(0, 8), st.booleans())
def test_form_does_not_matter(order: random.Random, name: str, indent: int, flow: bool) -> None:
    document = DOCUMENTS[name]
    shuffled = reordered(document, order)
    as_json = json.dumps(shuffled, indent=indent or None, ensure_ascii=flow).encode()
    as_yaml = yaml.safe_dump(shuffled, sort_keys=False, default_flow_style=flow, indent=indent or 2, width=40).encode()
    digests = {parse_manifest(decode(text)).digest for decode, text in _forms(as_json, as_yaml)}
    assert digests == {DIGESTS[name]}


def _forms(as_json: bytes, as_yaml: bytes) -> list[tuple[Any, bytes]]:
    return [(decode_json, as_json), (decode_yaml, as_yaml), (decode_json, b"\n\t " + as_json + b"\r\n ")]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_null_is_absent(name: str) -> None:
    document = DOCUMENTS[name]
    written = json.loads(json.dumps(parse_manifest(document).model_dump(mode="json")))
    assert None in _scalars(written)
    assert None not in _scalars(json.loads(parse_manifest(document).canonical()))
    assert parse_manifest(written).digest == parse_manifest(document).digest


def _scalars(value: Any) -> list[Any]:
    return [value_at(value, path) for path in leaves(value)]


@settings(deadline=None)
@given(ROUGH)
def test_no_document_is_a_crash(document: Any) -> None:
    with pytest.raises(ManifestRefused):
        parse_manifest(document)


@settings(deadline=None)
@given(st.data())
def test_no_value_is_a_crash(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([path[:cut] for path in leaves(FULL) for cut in range(1, len(path) + 1)]))
    parsed = _parsed(with_value(FULL, path, data.draw(ROUGH)))
    if isinstance(parsed, Manifest):
        assert parse_manifest(json.loads(parsed.canonical())) == parsed
    else:
        assert parsed.problems
        assert all(p.field and p.message and p.remedy for p in parsed.problems)


def _parsed(document: Any) -> Manifest | ManifestRefused:
    try:
        return parse_manifest(document)
    except ManifestRefused as refused:
        return refused
