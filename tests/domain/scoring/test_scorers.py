"""Each scorer by hand-made answers, and by inputs that were made to hurt it."""

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from app.domain.scoring import forms
from app.domain.scoring.programs import code_of
from app.domain.scoring.question import Question
from app.domain.scoring.registry import SCORERS, is_pure, lack_of, score_of, version_of
from app.domain.scoring.terms import Quality, ScorerName


def score(scorer: str, text: str, reference: str | None = None, **settings: Any) -> float:
    quality = Quality.model_validate({"scorer": scorer, "correct_from": 1.0, **settings})
    return score_of(text, Question(reference=reference), quality)


@pytest.mark.parametrize(
    ("text", "reference", "expected"),
    [("a b", "a b", 1), (" a b\n", "a b", 1), ("a  b", "a b", 0), ("A b", "a b", 0), ("", "a", 0), ("", "", 1)],
)
def test_exact(text: str, reference: str, expected: float) -> None:
    assert score("exact", text, reference) == expected


@pytest.mark.parametrize(
    ("text", "reference", "expected"),
    [
        ("Paris!", "paris", 1),
        ("  the\tCat\n sat. ", "The cat sat", 1),
        ("caf\u00e9", "cafe\u0301", 1),
        ("\uff34okyo", "tokyo", 1),
        ("STRASSE", "stra\u00dfe", 1),
        ("don\u2019t", "don't", 1),
        ("foo-bar", "foo bar", 1),
        ("3.14", "314", 0),
        ("3.14", "31.4", 0),
        ("-5", "5", 0),
        ("10-5", "105", 0),
        ("$5", "5", 0),
        ("a b", "ab", 0),
        ("\u6771\u4eac\u3002", "\u6771\u4eac", 1),
        ("yes", "no", 0),
    ],
)
def test_normalised(text: str, reference: str, expected: float) -> None:
    assert score("normalised", text, reference) == expected


@given(st.text(max_size=60))
def test_a_text_is_itself_however_it_is_written(text: str) -> None:
    assert score("normalised", f"  {text.upper()} \n", text.upper()) == 1
    assert score("exact", text, text) == 1


@pytest.mark.parametrize(
    ("text", "reference", "settings", "expected"),
    [
        ("2 + 2 is 4.", "4", {}, 1),
        ("#### 1,234", "1234", {}, 1),
        ("\u22123.5", "-3.5", {}, 1),
        ("1e3", "1000", {}, 1),
        ("so 0.30000000000000004", "0.3", {}, 0),
        ("so 0.30000000000000004", "0.3", {"absolute_tolerance": 1e-9}, 1),
        ("101", "100", {"relative_tolerance": 0.01}, 1),
        ("101.5", "100", {"relative_tolerance": 0.01}, 0),
        ("9007199254740993", "9007199254740992", {}, 0),
        ("none", "4", {}, 0),
        ("v4 is 4x", "4", {}, 0),
        ("version 1.2.3", "3", {}, 0),
        ("4, not 5", "4", {}, 0),
    ],
)
def test_numeric(text: str, reference: str, settings: dict[str, float], expected: float) -> None:
    assert score("numeric", text, reference, **settings) == expected


def test_numbers_without_end_are_no_numbers() -> None:
    assert score("numeric", "7" * 1_000_000, "7") == 0
    assert score("numeric", "1e999999999", "7") == 0
    assert score("numeric", "9" * 399, "7") == 0


@pytest.mark.parametrize(
    ("text", "reference", "measure", "expected"),
    [
        ("the cat sat", "the cat sat", "token_f1", 1),
        ("the cat", "the cat sat down", "token_f1", 2 * 2 / 6),
        ("cat the", "the cat", "token_f1", 1),
        ("cat the", "the cat", "rouge_l", 0.5),
        # ROUGE paper, Lin 2004: both candidates share three of four words, in order and out of it.
        ("police kill the gunman", "police killed the gunman", "rouge_l", 0.75),
        ("the gunman kill police", "police killed the gunman", "rouge_l", 0.5),
        ("the the the", "the", "token_f1", 0.5),
        ("\u6771\u4eac\u90fd", "\u6771\u4eac", "token_f1", 0.8),
        ("", "a", "token_f1", 0),
        ("", "", "rouge_l", 1),
    ],
)
def test_overlap(text: str, reference: str, measure: str, expected: float) -> None:
    assert score("overlap", text, reference, measure=measure) == pytest.approx(expected)


def test_overlap_needs_a_threshold() -> None:
    with pytest.raises(ValidationError, match="not guessed"):
        Quality.model_validate({"scorer": "overlap"})


def test_a_catastrophic_pattern_ends() -> None:
    assert score("regex", "a" * 100_000 + "!", pattern="(a+)+$") == 0
    assert score("regex", "aaa", pattern="(a+)+$") == 1
    assert score("regex", " ab\n", pattern="[a-c]+") == 1
    assert score("regex", "xab", pattern="[a-c]+") == 0
    assert score("regex", "\ud800", pattern="\\?") == 1


@pytest.mark.parametrize("pattern", ["(a)\\1", "(?=a)b", "(", "((a{100}){100}){100}"])
def test_what_cannot_be_bounded_is_refused(pattern: str) -> None:
    with pytest.raises(ValidationError, match="bounded time"):
        Quality.model_validate({"scorer": "regex", "pattern": pattern})
    question = Question(pattern=pattern)
    assert "bounded time" in (lack_of(question, Quality(scorer=ScorerName.REGEX)) or "")


PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "pattern": "^[A-Z]"}, "pattern": {"type": "integer"}},
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"name": "Ada"}', 1),
        (' {"name": "Ada", "pattern": 3}\n', 1),
        ('{"name": "ada"}', 0),
        ('{"name": "Ada", "age": 3}', 0),
        ('{"name": "Ada"', 0),
        ('{"name": "Ada", "name": "Bob"}', 0),
        ('Sure! {"name": "Ada"}', 0),
        ("NaN", 0),
        ("[" * 100_000, 0),
        ("", 0),
    ],
)
def test_json_schema(text: str, expected: float) -> None:
    quality = Quality(scorer=ScorerName.JSON_SCHEMA)
    assert score_of(text, Question(json_schema=PERSON), quality) == expected


def test_a_null_within_the_manifest_s_schema_stays() -> None:
    quality = Quality.model_validate({"scorer": "json_schema", "json_schema": '{"const": null}'})
    assert [score_of(text, Question(), quality) for text in ("null", "0")] == [1, 0]


def _doubling(levels: int) -> dict[str, Any]:
    """2 to the power of ``levels`` references."""
    steps = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(levels)}
    return {"$defs": {**steps, f"a{levels}": {}}, "$ref": "#/$defs/a0"}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/nowhere"},
        _doubling(60),
        {"$ref": "file:///etc/passwd"},
        {"$ref": "http://127.0.0.1:9/schema.json"},
    ],
)
def test_a_hostile_schema_allows_nothing_and_ends(schema: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def reach(*_: Any, **__: Any) -> None:
        raise AssertionError("a schema must reach nothing outside itself")

    monkeypatch.setattr("urllib.request.urlopen", reach)
    assert not forms.allows(schema, {"a": 1})


def test_references_within_the_schema_are_followed() -> None:
    tree = {
        "$defs": {
            "node": {"type": "object", "properties": {"left": {"$ref": "#/$defs/node"}, "n": {"type": "integer"}}}
        },
        "$ref": "#/$defs/node",
    }
    assert forms.allows(tree, {"left": {"left": {"n": 1}}})
    assert not forms.allows(tree, {"left": {"left": {"n": "1"}}})
    assert forms.allows(_doubling(8), 1)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "nothing"}, "no JSON Schema"),
        ({"patternProperties": {"(a+)+$": {}}}, "patternProperties is not read"),
        ({"properties": {"x": {"pattern": "(?=a)"}}}, "(?=a)"),
        ({"items": [{"$ref": "http://example.org/x"}]}, "no JSON Schema"),
        ({"prefixItems": [{"$ref": "http://example.org/x"}]}, "outside itself"),
    ],
)
def test_a_schema_that_is_not_read_is_refused_before_any_run(schema: dict[str, Any], words: str) -> None:
    lack = lack_of(Question(json_schema=schema), Quality(scorer=ScorerName.JSON_SCHEMA))
    assert words in (lack or "")


@given(
    st.recursive(
        st.sampled_from([{"type": "integer"}, {"type": "string"}, {"minimum": 3}, {"enum": [1, "a", None]}, {}]),
        lambda inner: (
            st.builds(lambda a, b: {"anyOf": [a, b]}, inner, inner)
            | st.builds(lambda a: {"properties": {"x": a}, "required": ["x"]}, inner)
            | st.builds(lambda a: {"items": a, "maxItems": 2}, inner)
        ),
        max_leaves=6,
    ),
    st.recursive(
        st.none() | st.integers(0, 5) | st.sampled_from(["a", "b"]),
        lambda inner: st.lists(inner, max_size=3) | st.builds(lambda a: {"x": a}, inner),
        max_leaves=6,
    ),
)
def test_the_library_says_the_same(schema: dict[str, Any], document: Any) -> None:
    assert forms.allows(schema, document) == jsonschema.Draft202012Validator(schema).is_valid(document)


@pytest.mark.parametrize(
    ("scorer", "question", "lack"),
    [
        ("exact", Question(), "reference"),
        ("normalised", Question(), "reference"),
        ("overlap", Question(), "reference"),
        ("numeric", Question(), "reference"),
        ("numeric", Question(reference="none"), "number in its reference"),
        ("regex", Question(), "structured_outputs.regex, and the manifest states no pattern"),
        ("json_schema", Question(), "structured_outputs.json_schema, and the manifest states no json_schema"),
        ("unit_tests", Question(reference="x"), "tests"),
        ("exact", Question(reference=""), None),
        ("numeric", Question(reference="= 3"), None),
        ("unit_tests", Question(tests="assert 1"), None),
    ],
)
def test_what_a_question_lacks_is_named(scorer: str, question: Question, lack: str | None) -> None:
    assert lack_of(question, Quality.model_validate({"scorer": scorer, "correct_from": 1})) == lack


def test_every_scorer_is_registered_and_versioned() -> None:
    assert set(SCORERS) == set(ScorerName)
    assert version_of(Quality(scorer=ScorerName.EXACT)) == "exact/1"
    assert [name for name in ScorerName if not is_pure(Quality.model_construct(scorer=name))] == ["unit_tests"]
    with pytest.raises(ValueError, match="runs the answer"):
        score("unit_tests", "x")


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"scorer": "exact", "pattern": "a"}, "pattern"),
        ({"scorer": "regex", "absolute_tolerance": 1}, "absolute_tolerance"),
        ({"scorer": "exact", "timeout_s": 1}, "timeout_s"),
        ({"scorer": "json_schema", "json_schema": "[1]"}, "json_schema"),
        ({"scorer": "json_schema", "json_schema": "{"}, "json_schema"),
        ({"scorer": "exact", "correct_from": 0}, "correct_from"),
        ({"scorer": "taste"}, "scorer"),
    ],
)
def test_settings_that_no_scorer_reads_are_refused_at_their_field(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Quality.model_validate(settings)
    assert [error["loc"] for error in refused.value.errors()] == [(field,)]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("def f(): ...", "def f(): ..."),
        ("Sure:\n```python\nx = 1\n```\nthen\n```\ny = 2\n```", "x = 1\n\ny = 2\n"),
        ("```json\n{}\n```\n```py\nx = 1\n```", "x = 1\n"),
        ("```python\nx = 1", "x = 1"),
    ],
)
def test_the_code_of_an_answer(text: str, code: str) -> None:
    assert code_of(text) == code


@pytest.mark.parametrize("fence", ["```\n", "```p\n", "```python\nx\n"])
def test_fences_without_end_cost_one_look(fence: str) -> None:
    assert len(code_of(fence * 100_000)) <= 1_000_000
