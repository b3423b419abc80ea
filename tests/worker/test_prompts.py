"""Privacy mode in the worker: the engine gets the prompts, and nothing else does."""

import json
from pathlib import Path

import pytest

from app.domain.errors import DomainError
from app.domain.lifecycle import RunState
from app.domain.trace import Trace, parse_trace
from app.evidence.packing import StoredTrace, pack_trace
from app.experiments.service import ExperimentService
from app.workloads.privacy import ProjectKey
from tests.worker.conduct import PlaceMaker
from tests.workloads.importing import imported
from worker.prompts import KEY_NAME, open_for_replay

CANARY = "zanzibar-canary-4711"
SECRET = b"k" * 32
LOADS = ({"name": "low", "regime": "latency", "rate_rps": 20.0},)


def private_trace(folder: Path, canary: str = CANARY) -> tuple[Trace, bytes]:
    """A trace of keyed hashes, and its prompt file."""
    folder.mkdir(exist_ok=True)
    rows = ({"prompt": f"{canary} {i}", "output_tokens": 5} for i in range(8))
    content = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    target = {"key": ProjectKey(SECRET), "prompts": folder / "prompts.jsonl"}
    made = imported(folder, "vllm-custom", content, loads="low=20x6", warmup=2, target=target)
    assert made.prompts is not None
    return parse_trace(made.trace.path.read_bytes()), made.prompts.path.read_bytes()


def provide(root: Path, trace: Trace, prompts: bytes, secret: bytes = SECRET) -> None:
    """What an operator copies to the worker's host."""
    root.mkdir(parents=True, exist_ok=True)
    (root / f"{trace.digest}.jsonl").write_bytes(prompts)
    (root / KEY_NAME).write_bytes(secret + b"\n")


def stored(trace: Trace) -> StoredTrace:
    return StoredTrace(pack_trace([trace.encode()]).body)


def test_the_requests_come_back_with_their_prompts(tmp_path: Path) -> None:
    trace, prompts = private_trace(tmp_path / "import")
    provide(tmp_path, trace, prompts)
    opened = open_for_replay(stored(trace), trace.digest, tmp_path)
    sent = [*opened.of_load("warmup"), *opened.of_load("low")]
    assert sorted(r.prompt or "" for r in sent) == sorted(f"{CANARY} {i}" for i in range(8))
    assert [r.due_ns for r in opened.of_load("low")] == [r.due_ns for r in trace.of_load("low")]


def test_a_trace_that_hides_nothing_needs_no_file(tmp_path: Path) -> None:
    plain = parse_trace(
        imported(tmp_path, "vllm-custom", b'{"prompt": "a"}\n', loads="low=1", warmup=0).trace.path.read_bytes()
    )
    assert open_for_replay(stored(plain), plain.digest, tmp_path / "none").of_load("low")


@pytest.mark.parametrize("missing", ["prompts", "key"])
def test_what_is_not_on_the_host_is_named(tmp_path: Path, missing: str) -> None:
    trace, prompts = private_trace(tmp_path / "import")
    provide(tmp_path, trace, prompts)
    path = tmp_path / (KEY_NAME if missing == "key" else f"{trace.digest}.jsonl")
    path.unlink()
    with pytest.raises(DomainError) as refused:
        open_for_replay(stored(trace), trace.digest, tmp_path)
    assert path.name in refused.value.problems[0].message


def test_a_file_of_another_import_or_key_is_refused(tmp_path: Path) -> None:
    trace, prompts = private_trace(tmp_path / "import")
    _, others = private_trace(tmp_path / "other", canary="else")
    for content, secret in ((others, SECRET), (prompts, b"z" * 32)):
        provide(tmp_path, trace, content, secret)
        with pytest.raises(DomainError) as refused:
            open_for_replay(stored(trace), trace.digest, tmp_path).of_load("low")
        assert CANARY not in repr(refused.value.problems)


async def test_the_engine_is_sent_the_prompts_and_no_artifact_holds_them(place: PlaceMaker, tmp_path: Path) -> None:
    here = place()
    trace, prompts = private_trace(tmp_path / "import")
    provide(here.settings.prompt_root, trace, prompts)
    manifest = await here.submit(trace, loads=list(LOADS))
    await here.conduct()

    evidence = await here.evidence(manifest)
    assert {run.state for run in evidence.runs} == {RunState.SUCCEEDED}
    assert {o.prompt_tokens is not None for run in evidence.runs for o in run.observations} == {True}
    kept = [path for path in here.settings.artifact_root.rglob("*") if path.is_file()]
    assert kept
    assert not [path for path in kept if CANARY.encode() in path.read_bytes()]
    assert CANARY not in evidence.model_dump_json()


async def test_without_the_file_the_block_fails_before_any_engine_starts(place: PlaceMaker, tmp_path: Path) -> None:
    here = place()
    trace, _ = private_trace(tmp_path / "import")
    manifest = await here.submit(trace, loads=list(LOADS))
    await here.conduct()

    assert not (await here.every_attempt(manifest)).sessions
    experiment = await ExperimentService(here.database, here.settings).read(manifest.digest)
    assert experiment.state == "FAILED"
    assert f"{trace.digest}.jsonl" in experiment.failures[0].message
