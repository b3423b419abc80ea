"""Loops are found, and what repeats for good reasons is not taken for one."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.repetition import Loop, is_looping, loop_at_end, repeated_share
from app.domain.scripts import dominant_script

PROSE = (
    "The harbour was quiet that morning, and the boats lay still under a thin sheet of fog. A woman walked along the "
    "quay with a basket of bread, greeting the fishermen who mended their nets. Nobody spoke of the storm. "
)
MARKDOWN = "| name | city | price |\n|---|---|---|\n" + "".join(
    f"| {name} | {city} | {price} |\n"
    for name, city, price in [("Ada", "Rome", 12), ("Bob", "Oslo", 7), ("Cyd", "Lima", 31), ("Dan", "Bern", 9)]
)
CODE = "".join(
    f"def get_{name}(self):\n    return self._{name}\n\n" for name in ("name", "city", "price", "size", "kind")
)
CSV = "id,level,host\n" + "".join(f"{n},INFO,host-{n * 7 % 11}\n" for n in range(12))
ITEMS = "\n".join(f"- item {n}" for n in range(8))


def tokens_of(text: str) -> list[int]:
    """A toy tokenizer: words and marks."""
    return [hash(part) % 50_000 for part in text.replace("|", " | ").replace("\n", " \n ").split(" ")]


def looping(text: str, **known: object) -> bool:
    reference = known.get("reference")
    return is_looping(tokens_of(text), text, ended=False, reference=reference if isinstance(reference, str) else None)


@pytest.mark.parametrize(
    "text", [PROSE, MARKDOWN, CODE, CSV, ITEMS, "yes", "", "ha ha ha", "----", "1 2 3 4 5 6 7 8 9 10"]
)
def test_tables_code_lists_and_short_answers_are_no_loops(text: str) -> None:
    assert not looping(text)


@pytest.mark.parametrize(
    "text",
    [
        PROSE + "and then and then " * 30,
        PROSE + "I am sorry. " * 40,
        PROSE[:60] + "a" * 300,
        "\n" * 200 + "x" * 200,
        MARKDOWN + "| Ada | Rome | 12 |\n" * 30,
        "\u6771\u4eac\u306f\u65e5\u672c\u306e\u9996\u90fd\u3067\u3059\u3002" * 12,
        "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35" * 20,
        "".join(f"{n}. The answer is the answer to the question.\n" for n in range(40)),
        "".join(f"Step {n}: we add one and go on with the next step.\n" for n in range(40)),
    ],
)
def test_loops_are_found_in_words_signs_and_counting_lists(text: str) -> None:
    assert looping(text)


def test_an_answer_that_ended_by_itself_is_no_loop() -> None:
    text = "ha " * 100
    assert is_looping(tokens_of(text), text, ended=False)
    assert not is_looping(tokens_of(text), text, ended=True)


def test_what_the_reference_repeats_may_be_repeated() -> None:
    text = "tick tock " * 60
    assert looping(text)
    assert not looping(text, reference="tick tock " * 60)
    assert looping(text, reference="tick tock")


def test_a_loop_that_an_answer_left_again_is_none() -> None:
    assert not looping("ha " * 60 + PROSE * 2)


@given(
    st.lists(st.integers(0, 5), max_size=30), st.lists(st.integers(0, 5), min_size=1, max_size=8), st.integers(4, 12)
)
def test_every_planted_loop_is_found_with_its_period(before: list[int], period: list[int], rounds: int) -> None:
    sequence = before + period * rounds
    found = loop_at_end(sequence, shortest=1)
    assert found is not None
    assert found.length >= len(period) * rounds
    assert all(
        a == b for a, b in zip(sequence[-found.length :], sequence[-found.length + found.period :], strict=False)
    )


def test_the_loop_is_measured() -> None:
    assert loop_at_end([1, 2, 3, *([7, 8, 9] * 6)]) == Loop(3, 18)
    assert loop_at_end(range(100)) is None
    assert loop_at_end([]) is None


def test_random_tokens_do_not_loop() -> None:
    rng = random.Random(5)
    assert not any(loop_at_end([rng.randrange(50) for _ in range(300)]) for _ in range(200))


def test_shares_of_repeated_groups() -> None:
    assert repeated_share("one two three") == 0
    assert repeated_share("a b c d " * 100) > 0.95
    assert repeated_share(PROSE) == 0


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("This is an answer in English.", "Latin"),
        ("\u043e\u0442\u0432\u0435\u0442 " * 4, "Cyrillic"),
        ("\u6771\u4eac\u306f\u65e5\u672c\u306e\u9996\u90fd\u3067\u3059" * 2, "Han, Hiragana, Katakana"),
        ("\u4f60\u597d", None),
        ("12345 67890 " * 5, None),
        ("caf\u00e9 na\u00efve r\u00e9sum\u00e9 d\u00e9j\u00e0 vu", "Latin"),
        ("half latin text \u043f\u043e\u043b\u043e\u0432\u0438\u043d\u0430 \u0440\u0443\u0441", None),
    ],
)  # fmt: skip
def test_the_script_of_most_letters(text: str, script: str | None) -> None:
    assert dominant_script(text) == script
