"""A digest is computed once per change of a file, and never taken from an older content."""

import json
import multiprocessing
import os
import time
from pathlib import Path

import pytest

from app.domain.errors import DomainError
from tests.worker.model_directory import make_model, put
from worker.model_files.digests import DigestCache, file_sha256
from worker.model_files.tree import SETTLED_NS, scan
from worker.models import model_digest

LATER = time.time_ns() + 3600 * 10**9
"""A clock by which every file of a test has long settled."""
POISON = "f" * 64


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return make_model(tmp_path / "tiny")


@pytest.fixture
def cache(tmp_path: Path) -> DigestCache:
    """A cache whose clock is an hour ahead."""
    return DigestCache(tmp_path / "digests", clock_ns=lambda: LATER)


def book_of(cache: DigestCache) -> Path:
    assert cache.root is not None
    [book] = cache.root.glob("*.json")
    return book


def poison(cache: DigestCache) -> None:
    """Put a wrong digest into every line of the book: an answer that shows it was not computed again."""
    book = json.loads(book_of(cache).read_text())
    book["lines"] = [line | {"sha256": POISON} for line in book["lines"]]
    book_of(cache).write_text(json.dumps(book))


def test_what_has_not_changed_is_not_read_again(model: Path, cache: DigestCache) -> None:
    assert cache.sha256s(scan(model)) == DigestCache().sha256s(scan(model))
    poison(cache)
    assert set(cache.sha256s(scan(model)).values()) == {POISON}
    assert set(DigestCache(cache.root).sha256s(scan(model)).values()) == {POISON}, "by another process"


def test_what_has_changed_is_read_again_and_only_that(model: Path, cache: DigestCache) -> None:
    cache.sha256s(scan(model))
    poison(cache)
    put(model / "config.json", "{}")
    put(model / "new.json", "{}")
    sha256s = cache.sha256s(scan(model))
    assert {name for name, sha256 in sha256s.items() if sha256 != POISON} == {"config.json", "new.json"}
    assert cache.sha256s(scan(model)) == sha256s


def test_the_same_size_and_times_do_not_hide_a_change(model: Path, cache: DigestCache) -> None:
    status = (model / "config.json").stat()
    before = cache.sha256s(scan(model))["config.json"]
    content = (model / "config.json").read_bytes()
    put(model / "config.json", content.replace(b"llama", b"LLAMA"))
    os.utime(model / "config.json", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (model / "config.json").stat().st_mtime_ns == status.st_mtime_ns
    assert cache.sha256s(scan(model))["config.json"] != before


@pytest.mark.parametrize(("age_ns", "remembered"), [(0, False), (SETTLED_NS - 1, False), (SETTLED_NS, True)])
def test_a_file_is_remembered_only_after_it_has_settled(
    model: Path, tmp_path: Path, age_ns: int, remembered: bool
) -> None:
    (model / "config.json").touch()
    changed_ns = (model / "config.json").stat().st_ctime_ns
    cache = DigestCache(tmp_path / "digests", clock_ns=lambda: changed_ns + age_ns)
    cache.sha256s(scan(model))
    names = [line["entry"][0] for line in json.loads(book_of(cache).read_text())["lines"]]
    assert ("config.json" in names) == remembered


def test_a_file_of_the_future_is_never_remembered(model: Path, cache: DigestCache) -> None:
    os.utime(model / "config.json", ns=(LATER, LATER))
    cache.sha256s(scan(model))
    assert "config.json" not in [line["entry"][0] for line in json.loads(book_of(cache).read_text())["lines"]]


@pytest.mark.parametrize("torn", ["", "{", '{"directory": "x", "lines": [{"entry": [], "sha256": "z"}]}', "\ud800"])
def test_a_torn_book_is_written_anew(model: Path, cache: DigestCache, torn: str) -> None:
    expected = cache.sha256s(scan(model))
    book_of(cache).write_bytes(torn.encode(errors="surrogatepass"))
    assert cache.sha256s(scan(model)) == expected
    assert len(json.loads(book_of(cache).read_text())["lines"]) == len(expected)


def test_some_files_may_be_asked_for_alone(model: Path, cache: DigestCache) -> None:
    some = cache.sha256s(scan(model), only={"config.json", "not there"})
    assert some == {"config.json": model_sha256(model, "config.json")}
    assert set(cache.sha256s(scan(model))) == {entry.name for entry in scan(model).entries}
    assert cache.sha256s(scan(model), only={"config.json"}) == some


def test_a_file_that_changes_while_it_is_read_has_no_digest(model: Path) -> None:
    listed = scan(model)
    put(model / "config.json", "{}")
    with pytest.raises(DomainError, match=r"config\.json: changed while it was read"):
        DigestCache().sha256s(listed)


def test_an_interrupted_pass_keeps_what_it_has_done(model: Path, cache: DigestCache) -> None:
    put(model / "zzz", "last by name")
    listed = scan(model)
    (model / "zzz").write_text("another content")
    with pytest.raises(DomainError, match="zzz"):
        cache.sha256s(listed)
    poison(cache)
    assert cache.sha256s(scan(model), only={"config.json"}) == {"config.json": POISON}


def test_several_processes_at_once_agree(model: Path, tmp_path: Path) -> None:
    put(model / "large.bin", os.urandom(8 * 1024**2))
    arguments = [(model, tmp_path / "digests")] * 12
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        answers = pool.starmap(digest_of, arguments)
    assert set(answers) == {model_digest(model)}
    assert not [path for path in (tmp_path / "digests").iterdir() if path.name.startswith(".")], (
        "no temporary file is left"
    )


def digest_of(model: Path, root: Path) -> str:
    """In a process of its own."""
    return model_digest(model, DigestCache(root, clock_ns=_later))


def _later() -> int:
    return LATER


def model_sha256(model: Path, name: str) -> str:
    entry = scan(model).find(name)
    assert entry is not None
    return file_sha256(model, entry)
