"""Each rule of the manifest, broken once: the field, the reason and the remedy are told."""

import pytest

from app.domain.errors import FieldProblem, ManifestRefused
from app.domain.manifest import parse_manifest
from tests.domain.bad_manifests import BAD
from tests.factories import manifest_document


def problems_of(document: object) -> dict[str, FieldProblem]:
    with pytest.raises(ManifestRefused) as refused:
        parse_manifest(document)
    return {problem.field: problem for problem in refused.value.problems}


def test_the_document_that_the_cases_change_is_valid() -> None:
    assert parse_manifest(manifest_document()).name == "demo"


@pytest.mark.parametrize("case", BAD)
def test_a_refusal_names_the_field_the_reason_and_the_remedy(case: str) -> None:
    bad = BAD[case]
    problems = problems_of(bad.document())
    assert list(problems) == [bad.field]
    assert bad.reason in problems[bad.field].message
    assert bad.remedy in problems[bad.field].remedy


def test_every_wrong_field_is_told_at_once() -> None:
    document = BAD["absurd blocks"].document() | {"turbo": True, "target_model": "org/model@main"}
    assert set(problems_of(document)) == {"blocks", "turbo", "target_model"}


def test_rules_about_several_fields_are_told_at_once() -> None:
    document = manifest_document(family={"comparisons": ["eagle"]})
    document["arms"] = [*document["arms"], document["arms"][1]]
    assert set(problems_of(document)) == {"arms[2].name", "family.comparisons[0]"}


def test_a_password_in_an_address_is_not_repeated() -> None:
    problems = problems_of(BAD["web address"].document())
    assert "secret" not in str(problems)


@pytest.mark.parametrize("document", [None, [], "text", 3, {}])
def test_what_is_not_a_manifest_is_refused(document: object) -> None:
    assert problems_of(document)


@pytest.mark.parametrize("text", ["a\x00b", "a\x1b[31m", "a\x7f"])
def test_control_characters_are_refused(text: str) -> None:
    document = manifest_document()
    document["hardware"] = document["hardware"] | {"topology": text}
    assert "hardware.topology" in problems_of(document)
