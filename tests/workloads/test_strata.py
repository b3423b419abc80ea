import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.output_length import bucket
from app.domain.trace_request import TraceRequest
from app.workloads.languages import language_label
from app.workloads.strata import INPUT_EDGES, infer, repetition


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("What is the capital of Peru?", "latin"),
        ("Wie heißt die Hauptstadt?", "latin"),
        ("Какой сегодня день?", "cyrillic"),
        ("何時に店は閉まりますか。", "ja"),
        ("图书馆几点关门", "han"),
        ("도서관은 몇 시에 닫나요?", "ko"),
        ("Πού είναι ο σταθμός;", "el"),  # noqa: RUF001  (Greek is meant)
        ("מתי יוצאת הרכבת?", "he"),
        ("متى يغادر القطار؟", "arabic"),
        ("รถไฟออกกี่โมง", "th"),
        ("पुस्तकालय कब बंद होता है?", "devanagari"),
        ("12 + 34 = ?", "none"),
        ("abcdefgh абвгдежз", "mixed"),
    ],
)
def test_scripts_say_what_they_can_and_no_more(text: str, label: str) -> None:
    assert language_label(text) == label


def test_repetition_is_the_share_of_the_reference_that_the_prompt_has() -> None:
    prompt = "Copy: the tide was low and the ferry was late."
    assert repetition(prompt, "the tide was low and the ferry was late") == 1
    assert repetition(prompt, "nothing of this occurs up there") == 0
    assert repetition("a b c d", "a b c x y") == pytest.approx(1 / 3)
    assert repetition(prompt, "too short") is None
    assert repetition("本日は晴天なり", "晴天なり") == 1


@given(st.integers(1, 200_000))
def test_every_length_is_in_the_bucket_that_names_it(length: int) -> None:
    label = bucket(length, INPUT_EDGES)
    if label.startswith("over-"):
        assert length > INPUT_EDGES[-1]
    else:
        low, high = map(int, label.split("-"))
        assert low <= length <= high


def test_buckets_end_at_their_edges() -> None:
    assert [bucket(n, INPUT_EDGES) for n in (1, 128, 129, 32_768, 32_769)] == [
        "1-128", "1-128", "129-512", "8193-32768", "over-32768",
    ]  # fmt: skip


def request(**fields: object) -> TraceRequest:
    document = {"request_id": "r1", "load": "a", "due_ns": 0, "max_tokens": 40, "strata": {"task": "x"}}
    return TraceRequest.model_validate(document | fields)


def test_declared_labels_win_and_unknown_ones_are_absent() -> None:
    labels = infer(request(prompt="Hello there"), "Hello there", {"language": "en", "task": "greeting"})
    assert labels == {
        "task": "greeting", "language": "en", "output": "33-128", "turns": "single", "sampling": "manifest",
        "constraint": "none",
    }  # fmt: skip


def test_sampling_constraint_and_turns_are_read_off_the_request() -> None:
    asked = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    labels = infer(
        request(messages=asked, sampling={"temperature": 0}, structured_outputs={"regex": "x"}, input_tokens=300),
        None,
        {},
    )
    assert (labels["sampling"], labels["constraint"], labels["turns"], labels["input"]) == (
        "greedy",
        "regex",
        "multi",
        "129-512",
    )
    assert "language" not in labels
    assert labels["task"] == "unlabelled"


def test_repetitive_answers_are_labelled_where_a_reference_is_known() -> None:
    text = "Repeat after me: one two three four."
    assert infer(request(prompt=text, reference="one two three four"), text, {})["repetitive"] == "yes"
    assert infer(request(prompt=text, reference="five six seven eight"), text, {})["repetitive"] == "no"
