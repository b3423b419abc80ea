from pathlib import Path

import pytest

from app.domain.errors import DomainError
from app.workloads.readers.sniffing import sniff
from tests.factories import make_trace
from tests.workloads.samples import FURTHER, SAMPLES


def saved(folder: Path, content: bytes) -> Path:
    path = folder / "some.file"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(("name", "content"), [*SAMPLES.items(), *FURTHER.items(), ("verdraft", make_trace().encode())])
def test_every_format_is_known_by_its_content_and_says_why(tmp_path: Path, name: str, content: bytes) -> None:
    sniffed = sniff(saved(tmp_path, content))
    assert sniffed.format.name == name
    assert sniffed.because


@pytest.mark.parametrize("name", sorted(SAMPLES.keys() - {"sharegpt", "speed-bench-parquet", "azure", "burstgpt"}))
def test_a_broken_first_line_does_not_hide_the_format(tmp_path: Path, name: str) -> None:
    assert sniff(saved(tmp_path, b'{"broken\n' + SAMPLES[name])).format.name == name


def test_bodies_with_times_are_not_taken_for_prompts_without(tmp_path: Path) -> None:
    assert sniff(saved(tmp_path, b'{"timestamp": 1, "prompt": "a", "output_tokens": 2}\n')).format.name == "openai"


@pytest.mark.parametrize(
    ("content", "word"),
    [(b"", "empty"), (b"\x1f\x8b\x08", "gzip"), (b"[1, 2]", "no known"), (b"a,b\n1,2\n", "no known")],
)
def test_what_is_unknown_is_refused_with_what_was_seen(tmp_path: Path, content: bytes, word: str) -> None:
    with pytest.raises(DomainError) as refused:
        sniff(saved(tmp_path, content))
    assert word in refused.value.problems[0].message
