"""Every family in every language has right answers, and a check that can tell a wrong one."""

import json
import random

import jsonschema
import pytest

from app.synthetic.families import MAKERS, Family
from app.synthetic.language import LanguageCode, language
from app.synthetic.task import Task
from app.synthetic.texts import Dials, Length, sentences
from tests.synthetic.answers import is_right, passes

DRAWS = 60
CHECKED = [family for family in Family if family is not Family.CONTINUE]


def tasks(family: Family, code: LanguageCode, length: Length = Length.SHORT, share: float = 0.0) -> list[Task]:
    rng = random.Random(f"{family} {code} {length} {share}")
    return [MAKERS[family](rng, language(code), Dials(length, share)) for _ in range(DRAWS)]


@pytest.mark.parametrize("share", [0.0, 0.8])
@pytest.mark.parametrize("length", Length)
@pytest.mark.parametrize("code", LanguageCode)
@pytest.mark.parametrize("family", CHECKED)
def test_every_answer_is_the_right_one(family: Family, code: LanguageCode, length: Length, share: float) -> None:
    for task in tasks(family, code, length, share):
        assert task.answer
        assert is_right(family, language(code), task, task.answer), task.instruction


@pytest.mark.parametrize("code", LanguageCode)
@pytest.mark.parametrize("family", CHECKED)
def test_the_check_refuses_the_answer_of_another_task(family: Family, code: LanguageCode) -> None:
    first, *others = tasks(family, code)
    other = next(
        task for task in others if task.answer != first.answer and (task.answer or "") not in first.instruction
    )
    assert not is_right(family, language(code), first, other.answer or "")


@pytest.mark.parametrize("code", LanguageCode)
def test_an_open_end_has_no_answer_but_something_that_was_said(code: LanguageCode) -> None:
    for task in tasks(Family.CONTINUE, code):
        assert (task.answer, bool(task.recorded)) == (None, True)
        assert task.reply == task.recorded


@pytest.mark.parametrize("code", LanguageCode)
def test_an_unfinished_function_passes_no_test(code: LanguageCode) -> None:
    for task in tasks(Family.CODE, code):
        given = task.instruction.split("```python\n")[1].removesuffix("\n```")
        assert not passes(given, task.tests or "")
        assert task.answer
        assert task.answer.split('"""')[0] in given


@pytest.mark.parametrize("code", LanguageCode)
def test_the_schema_takes_the_right_answer_and_no_other_keys(code: LanguageCode) -> None:
    for task in tasks(Family.EXTRACT, code):
        assert task.schema
        validator = jsonschema.Draft202012Validator(task.schema)
        answer = json.loads(task.answer or "")
        assert validator.is_valid(answer)
        assert not validator.is_valid(answer | {"surprise": 1})


@pytest.mark.parametrize("code", LanguageCode)
def test_every_wording_can_be_filled(code: LanguageCode) -> None:
    texts = language(code)
    rng = random.Random(1)
    english = language(LanguageCode.EN).sections
    assert {name: len(lines) for name, lines in texts.sections.items()}.keys() == english.keys()
    for section in ("names", "cities", "products", "sentences"):
        assert len(set(texts.sections[section])) == len(english[section]), section
    for _ in range(400):
        said, _ = sentences(rng, texts, Dials(Length.SHORT, 0.0))
        assert not any("{" in sentence or "}" in sentence for sentence in said)


@pytest.mark.parametrize("family", [Family.COPY, Family.EDIT, Family.TRANSFORM, Family.QA])
def test_the_length_dial_lengthens(family: Family) -> None:
    short, medium, long = (
        sum(len(task.instruction) for task in tasks(family, LanguageCode.EN, length)) for length in Length
    )
    assert short * 1.5 < medium
    assert medium * 1.5 < long


def test_the_repetitiveness_dial_repeats() -> None:
    def repeated(share: float) -> float:
        rng = random.Random(3)
        texts = [sentences(rng, language(LanguageCode.EN), Dials(Length.LONG, share))[0] for _ in range(40)]
        return 1 - sum(len(set(said)) for said in texts) / sum(len(said) for said in texts)

    assert repeated(0.0) < 0.02
    assert repeated(0.5) == pytest.approx(0.5, abs=0.08)
    assert repeated(1.0) > 0.9
