import json
import stat
from pathlib import Path

import pytest

from app.domain.errors import DomainError
from app.domain.trace import parse_trace
from app.workloads.choices import OnBadRow, Turns
from app.workloads.drafting import Choices
from app.workloads.privacy import PRIVATE, ProjectKey, read_prompts, reveal
from tests.workloads.importing import imported, trace_of
from tests.workloads.samples import OPENAI

CANARY = "zanzibar-canary-4711"
KEY = ProjectKey(b"k" * 32)
REQUESTS = (
    OPENAI.replace(b"List two colours.", CANARY.encode()).replace(b'"END"', f'"{CANARY}"'.encode())
    + json.dumps({"timestamp": 20, "prompt": f"Say {CANARY}", "max_tokens": 4}).encode()
    + b"\n"
)


def private_import(folder: Path, content: bytes = REQUESTS, key: ProjectKey = KEY) -> tuple[bytes, bytes]:
    """(trace, prompt file)."""
    result = imported(folder, "openai", content, warmup=0, target={"key": key, "prompts": folder / "prompts.jsonl"})
    assert result.prompts is not None
    return result.trace.path.read_bytes(), result.prompts.path.read_bytes()


def test_no_word_of_a_prompt_is_in_the_trace_or_left_on_disk(tmp_path: Path) -> None:
    trace, prompts = private_import(tmp_path)
    assert CANARY.encode() not in trace
    assert prompts.count(CANARY.encode()) == 3
    assert {path.name for path in tmp_path.iterdir()} == {"source.file", "out.jsonl", "prompts.jsonl"}
    for request in parse_trace(trace).requests:
        assert not set(request.model_dump(exclude_defaults=True)) & set(PRIVATE)


def test_lengths_times_labels_and_sampling_stay(tmp_path: Path) -> None:
    trace, _ = private_import(tmp_path)
    first, second, *_ = parse_trace(trace).requests
    assert first.sampling is not None
    assert (first.sampling.temperature, first.max_tokens, first.strata["constraint"]) == (0.7, 40, "json")
    assert (second.input_tokens, second.due_ns) == (3, 500_000_000)


def test_the_worker_gets_every_request_back_exactly(tmp_path: Path) -> None:
    trace, prompts = private_import(tmp_path)
    private = dict(read_prompts(prompts.splitlines(), KEY))
    revealed = [reveal(request, private[request.prompt_hash or ""]) for request in parse_trace(trace).requests]
    plain = tmp_path / "plain"
    plain.mkdir()
    assert revealed == list(trace_of(imported(plain, "openai", REQUESTS, warmup=0)).requests)


def test_hashes_need_the_key_and_equal_prompts_have_equal_hashes(tmp_path: Path) -> None:
    line = b'{"timestamp": %d, "prompt": "again", "max_tokens": 4}\n'
    trace, _ = private_import(tmp_path, line % 1 + line % 2)
    other, _ = private_import(tmp_path, line % 1 + line % 2, ProjectKey(b"z" * 32))
    first, second = (request.prompt_hash for request in parse_trace(trace).requests)
    assert first == second
    assert first not in {request.prompt_hash for request in parse_trace(other).requests}


def test_a_changed_prompt_or_another_key_is_found(tmp_path: Path) -> None:
    _, prompts = private_import(tmp_path)
    with pytest.raises(DomainError) as refused:
        list(read_prompts(prompts.replace(CANARY.encode(), b"other").splitlines(), KEY))
    assert refused.value.problems[0].field == "prompt file, line 1"
    with pytest.raises(DomainError):
        list(read_prompts(prompts.splitlines(), ProjectKey(b"z" * 32)))


def test_the_prompt_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    private_import(tmp_path)
    assert stat.S_IMODE((tmp_path / "prompts.jsonl").stat().st_mode) == 0o600


def test_the_header_names_the_key_without_telling_it(tmp_path: Path) -> None:
    trace, _ = private_import(tmp_path)
    header = parse_trace(trace).header
    assert header.privacy == "keyed_hash"
    assert header.record is not None
    assert isinstance(header.record["privacy"], dict)
    assert header.record["privacy"]["key_id"] == KEY.key_id
    assert b"k" * 32 not in trace


def test_bad_rows_tell_nothing_either(tmp_path: Path) -> None:
    bad = json.dumps({"timestamp": 1, "prompt": CANARY, "n": 4}).encode() + b"\n" + REQUESTS
    result = imported(
        tmp_path, "openai", bad, warmup=0, on_bad_row=OnBadRow.SKIP, target={"key": KEY, "prompts": tmp_path / "p"}
    )
    assert CANARY not in repr(result.reading.tally)
    assert CANARY.encode() not in result.trace.path.read_bytes()


def test_a_short_key_is_refused() -> None:
    with pytest.raises(DomainError) as refused:
        ProjectKey(b"short")
    assert refused.value.problems[0].field == "privacy key"


@pytest.mark.parametrize("target", [{"key": KEY}, {"prompts": Path("p")}])
def test_key_and_prompt_file_go_together(tmp_path: Path, target: dict[str, object]) -> None:
    with pytest.raises(DomainError) as refused:
        imported(tmp_path, "openai", REQUESTS, target=target)
    assert refused.value.problems[0].field == "prompts"


def test_own_answers_cannot_be_private(tmp_path: Path) -> None:
    with pytest.raises(DomainError) as refused:
        imported(
            tmp_path,
            "openai",
            REQUESTS,
            choices=Choices(turns=Turns.OWN),
            target={"key": KEY, "prompts": tmp_path / "p"},
        )
    assert refused.value.problems[0].field == "turns"
