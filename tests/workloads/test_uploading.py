"""A file from a browser becomes the same trace as on the command line, and opens nothing else on this host."""

import json
from io import BytesIO
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import app
from app.domain.errors import DomainError
from app.settings import PROJECT_ROOT
from app.workloads.choices import OnBadRow
from app.workloads.uploading import UploadWish, read_upload, safe_name, tokenizers
from tests.factories import make_trace
from tests.workloads.importing import FIXTURES
from tests.workloads.samples import OPENAI

MODELS = PROJECT_ROOT / "models"
PROMPTS = b"".join(b'{"prompt": "Say %d again", "output_tokens": 7}\n' % i for i in range(60))


def test_a_list_of_prompts_is_read_with_its_rate_and_counted() -> None:
    wish = UploadWish(loads="low=2x40", tokenizer="tiny-target", name="mine")
    made = read_upload(BytesIO(PROMPTS), "prompts.jsonl", wish, MODELS)
    assert made.summary.header.name == "mine"
    assert made.summary.loads["low"].requests == 40
    assert made.summary.loads["low"].unknown_length == 0
    assert made.examples[0].load == "warmup"
    assert any("belong to no load point" in warning for warning in made.warnings)


def test_it_is_the_trace_that_the_command_line_makes(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_bytes(OPENAI)
    made = read_upload(BytesIO(OPENAI), "C:\\fakepath\\requests.jsonl", UploadWish(), MODELS)
    result = CliRunner().invoke(app, ["workload", "import", str(path), "-o", str(tmp_path / "out.jsonl"), "--json"])
    assert json.loads(result.stdout)["trace"]["digest"] == made.summary.digest


def test_our_own_format_is_taken_as_it_is() -> None:
    trace = make_trace(requests=12)
    made = read_upload(BytesIO(trace.encode()), "t.jsonl", UploadWish(), MODELS)
    assert made.summary.digest == trace.digest


def test_a_bad_row_refuses_or_is_counted() -> None:
    damaged = PROMPTS + b'{"prompt": 7}\n'
    with pytest.raises(DomainError) as refused:
        read_upload(BytesIO(damaged), "p", UploadWish(loads="low=1"), MODELS)
    assert refused.value.problems[0].field.startswith("line 61")
    made = read_upload(BytesIO(damaged), "p", UploadWish(loads="low=1", on_bad_row=OnBadRow.SKIP), MODELS)
    record = made.summary.header.record or {}
    assert (record["rows_kept"], record["rows_skipped"]) == (60, 1)


@pytest.mark.parametrize("alias", ["../models/tiny-target", str(MODELS / "tiny-target"), "absent", "."])
def test_the_sender_names_no_path_of_this_host(alias: str) -> None:
    with pytest.raises(DomainError) as refused:
        read_upload(BytesIO(PROMPTS), "p", UploadWish(loads="low=1", tokenizer=alias), MODELS)
    assert refused.value.problems[0].field == "tokenizer"
    assert "tiny-target" in tokenizers(MODELS)


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("../../etc/passwd", "passwd"),
        ("/abs/olute.csv", "olute.csv"),
        ("C:\\fakepath\\a b.json", "a-b.json"),
        ("..", "upload"),
        ("", "upload"),
        ("a\0b", "a-b"),
        ("x" * 300, "x" * 80),
        ("<script>.jsonl", "script-.jsonl"),
    ],
)
def test_a_file_name_is_only_a_word(sent: str, kept: str) -> None:
    assert safe_name(sent) == kept


def test_nothing_stays_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    read_upload(BytesIO((FIXTURES / "azure_llm_conv_3000.csv").read_bytes()), "azure.csv", UploadWish(), MODELS)
    with pytest.raises(DomainError):
        read_upload(BytesIO(b"nonsense"), "x", UploadWish(), MODELS)
    assert list(tmp_path.iterdir()) == []
