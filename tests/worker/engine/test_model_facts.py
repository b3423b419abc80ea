"""Facts of model classes pass from one server's private cache to the next; nothing else does."""

from pathlib import Path

from worker.engine.model_facts import FACTS, keep, lend


def test_only_facts_are_kept_and_lent(tmp_path: Path) -> None:
    first, second, kept = tmp_path / "first", tmp_path / "second", tmp_path / "kept"
    (first / FACTS).mkdir(parents=True)
    (first / FACTS / "llama.json").write_text('{"hash": "1"}')
    (first / "torch_compile_cache").mkdir()
    keep(first, kept)
    lend(kept, second)
    assert [path.relative_to(second).as_posix() for path in second.rglob("*") if path.is_file()] == [
        f"{FACTS}/llama.json"
    ]
    assert (second / FACTS / "llama.json").read_text() == '{"hash": "1"}'


def test_a_first_server_finds_nothing_to_borrow(tmp_path: Path) -> None:
    lend(tmp_path / "kept", tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_no_half_written_file_is_lent(tmp_path: Path) -> None:
    (tmp_path / "cache" / FACTS).mkdir(parents=True)
    (tmp_path / "cache" / FACTS / "llama.json").write_text("{}")
    keep(tmp_path / "cache", tmp_path / "kept")
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["llama.json"]
