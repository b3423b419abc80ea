"""The form tells the ranges that the published schema has."""

import pytest

from app.pages.form import DEFAULTS
from app.pages.ranges import range_of


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("blocks", "1 to 100"),
        ("serving.max_model_len", "16 to 1,048,576"),
        ("serving.kv_cache_space_gib", "1 to 1,024"),
        ("arms[3].speculation.num_speculative_tokens", "1 to 64"),
        ("arms[N].speculation.num_speculative_tokens", "1 to 64"),
        ("slo.ttft_ms", "above 0, at most 86,400,000"),
        ("margins.delta", "above 0, below 1"),
        ("schedule_seed", "0 or more"),
        ("sampling.temperature", "0 to 2"),
        ("name", ""),
        ("serving.dtype", ""),
        ("serving.prefix_caching", ""),
        ("workloads", ""),
        ("no.such[1].input", ""),
    ],
)
def test_a_range_is_read_from_the_schema(name: str, words: str) -> None:
    assert range_of(name) == words


def test_every_number_that_the_form_asks_for_has_a_range() -> None:
    numbers = [name for name, value in DEFAULTS.items() if value.replace(".", "").isdigit()]
    assert len(numbers) > 8
    assert all(range_of(name) for name in numbers)
