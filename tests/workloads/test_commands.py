import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from app.cli import app
from app.domain.trace import parse_trace
from tests.workloads.importing import timed
from tests.workloads.samples import AZURE, OPENAI, SAMPLES, SHAREGPT


def verdraft(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["workload", *(str(argument) for argument in arguments)])


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A broken Azure file in the working directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "some trace.csv"
    path.write_bytes(AZURE.replace(b",396,", b",x,"))
    return path


def answer(result: Result) -> dict[str, Any]:
    return json.loads(result.stdout)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_a_look_at_any_source_counts_and_writes_nothing(tmp_path: Path, name: str) -> None:
    path = tmp_path / "source"
    path.write_bytes(SAMPLES[name])
    result = verdraft("import", path, "--dry-run", "--json")
    assert result.exit_code == 0, result.output
    found = answer(result)
    assert found["format"] == name
    assert found["record"]["rows_read"] == found["record"]["rows_kept"] > 0
    assert list(tmp_path.iterdir()) == [path]
    assert f"format: {name}" in verdraft("import", path, "--dry-run").stdout


def test_bad_rows_refuse_by_default_with_line_reason_and_remedy(source: Path) -> None:
    result = verdraft("import", source, "--dry-run")
    assert result.exit_code == 1
    assert "line 3: ContextTokens" in result.stderr
    problems = answer(verdraft("import", source, "--json"))["problems"]
    assert problems[0]["field"] == "line 3: ContextTokens"
    assert "skip" in problems[0]["remedy"]


def test_skip_makes_the_trace_and_lists_what_was_skipped(source: Path) -> None:
    result = verdraft("import", source, "--on-bad-row", "skip", "--bad-rows", "bad.jsonl", "--json")
    assert result.exit_code == 0, result.output
    made = answer(result)
    assert made["trace"]["path"] == "some-trace.trace.jsonl"
    assert made["trace"]["content_valid"] is False
    trace = parse_trace(Path(made["trace"]["path"]).read_bytes())
    assert trace.digest == made["trace"]["digest"]
    assert trace.header.record == made["record"]
    assert json.loads(Path("bad.jsonl").read_text()) == {
        "where": "line 3", "field": "ContextTokens", "reason": "is not a whole number", "rows": 1,
    }  # fmt: skip
    said = verdraft("import", source, "--on-bad-row", "skip").stdout
    assert "3 read = 2 kept + 1 skipped" in said
    assert "CONTENT NOT VALID" in said


def test_a_wrong_format_can_be_forced_and_is_refused_in_words(source: Path) -> None:
    result = verdraft("import", source, "--format", "mooncake", "--dry-run")
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    assert "one of azure" in verdraft("import", source, "--format", "xml").stderr


def test_prompts_join_a_trace_of_lengths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus.json").write_bytes(SHAREGPT)
    (tmp_path / "times.csv").write_bytes(AZURE)
    options = ("--corpus", "corpus.json", "--tokenizer", "tiny-target", "--join", "blocks", "--allow-reuse", "--json")
    refused = verdraft("import", "times.csv", *options)
    assert "more text than the corpus has" in refused.stdout
    (tmp_path / "times.csv").write_bytes(AZURE.replace(b"374", b"5").replace(b"396", b"6").replace(b"879", b"7"))
    made = answer(verdraft("import", "times.csv", *options))
    assert made["trace"]["content_valid"] is True
    trace = parse_trace(Path(made["trace"]["path"]).read_bytes())
    assert [len(request.prompt_token_ids) for request in trace.requests] == [5, 6, 7]
    assert trace.header.differs
    assert "tokenizer" in verdraft("import", "times.csv", "--corpus", "corpus.json").stderr


def test_privacy_mode_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.jsonl").write_bytes(OPENAI)
    (tmp_path / "key").write_text("5" * 64 + "\n")
    result = verdraft("import", "log.jsonl", "--privacy-key", "key", "--prompts", "prompts.jsonl", "--json")
    assert result.exit_code == 0, result.output
    for place in (Path(answer(result)["trace"]["path"]).read_text(), result.output):
        assert "colours" not in place
        assert "5" * 64 not in place
    assert "colours" in Path("prompts.jsonl").read_text()


def test_slice_sample_and_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("times.csv").write_bytes(timed(600))
    assert verdraft("import", "times.csv", "-o", "whole.jsonl", "--name", "azure").exit_code == 0
    part = answer(verdraft("slice", "whole.jsonl", "--load", "recorded", "--to-s", "60", "-o", "part.jsonl", "--json"))
    assert part["name"] == "azure-slice"
    assert part["loads"][0]["duration_ns"] == 60 * 10**9
    few = answer(verdraft("sample", "whole.jsonl", "--load", "recorded", "--count", "5", "-o", "few.jsonl", "--json"))
    assert few["loads"][0]["requests"] == 5
    back = answer(verdraft("export", "times.csv", "--trace", "few.jsonl", "-o", "few.csv", "--json"))
    assert back["rows"] == 5 + 16
    assert verdraft("export", "times.csv", "-o", "all.csv").exit_code == 0
    assert Path("all.csv").read_bytes() == Path("times.csv").read_bytes()
    assert verdraft("import", "few.jsonl", "--dry-run").exit_code == 0
    assert "trace already" in verdraft("import", "few.jsonl").stderr


def test_make_writes_what_a_spec_says(tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text("name: made\nseed: 1\nloads:\n  - {name: low, rate_rps: 2, duration_s: 10}\n")
    first = answer(verdraft("make", spec, "-o", tmp_path / "a.jsonl", "--json"))
    again = answer(verdraft("make", spec, "-o", tmp_path / "b.jsonl", "--json"))
    assert first["digest"] == again["digest"] == parse_trace((tmp_path / "a.jsonl").read_bytes()).digest
    spec.write_text("name: made\nseed: 1\nloads: []\ncolour: red\n")
    refused = verdraft("make", spec, "-o", tmp_path / "c.jsonl")
    assert refused.exit_code == 1
    assert "colour" in refused.stderr
    assert not (tmp_path / "c.jsonl").exists()
