"""Every store keeps what it was given, under its digest, and says so when it no longer has it."""

import io
import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import fsspec
import pytest
from moto.server import ThreadedMotoServer

from app.artifacts.store import ArtifactDamaged, ArtifactStore, path_of
from app.domain.canonical import digest
from app.domain.errors import NotFound

CONTENT = bytes(range(256)) * 9000
"""More than two chunks."""


@pytest.fixture(params=["directory", "memory", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "directory":
        yield str(tmp_path / "store")
    elif request.param == "memory":
        yield f"memory://{tmp_path.name}"
    else:
        yield request.getfixturevalue("bucket")


@pytest.fixture(scope="module")
def s3_server() -> Iterator[None]:
    """A real S3 server on this host, which everything in this process takes for Amazon's."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            environment.setenv(name, "test")
        yield
    server.stop()


@pytest.fixture
def bucket(s3_server: None) -> str:
    name = f"evidence-{uuid4().hex}"
    fsspec.filesystem("s3").mkdir(name)
    return f"s3://{name}/verdraft"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(CONTENT)
    return path


def test_what_was_put_comes_back_and_is_kept_once(url: str, source: Path) -> None:
    store = ArtifactStore(url)
    first, second = store.put(source), store.put(source)
    assert first == second
    assert (first.sha256, first.path, first.size_bytes) == (digest(CONTENT), path_of(digest(CONTENT)), len(CONTENT))
    assert store.has(first.sha256)
    assert [*ArtifactStore(url).digests(older_than_s=0)] == [first.sha256]
    target = io.BytesIO()
    store.copy(first.sha256, target)
    assert target.getvalue() == CONTENT
    assert store.tail(first.sha256, 300) == CONTENT[-300:]
    assert store.tail(first.sha256, 2 * len(CONTENT)) == CONTENT


def test_what_is_removed_is_gone(url: str, source: Path) -> None:
    store = ArtifactStore(url)
    kept = store.put(source)
    assert (store.remove(kept.sha256), store.remove(kept.sha256)) == (len(CONTENT), 0)
    assert not store.has(kept.sha256)
    assert [*store.digests(older_than_s=0)] == []
    with pytest.raises(NotFound, match="is not here"):
        store.tail(kept.sha256, 1)


def test_damage_is_told_on_every_read_and_mended_by_putting_it_again(url: str, source: Path) -> None:
    store = ArtifactStore(url)
    kept = store.put(source)
    files, root = fsspec.url_to_fs(url)
    files.pipe_file(f"{root}/{kept.path}", CONTENT[:-1] + b"x")
    with pytest.raises(ArtifactDamaged, match=r"has the digest [0-9a-f]{64} now"):
        store.tail(kept.sha256, 10)
    with pytest.raises(ArtifactDamaged):
        store.copy(kept.sha256, io.BytesIO())
    files.pipe_file(f"{root}/{kept.path}", CONTENT[:100])
    store.put(source)
    assert store.tail(kept.sha256, 10) == CONTENT[-10:]


def test_a_young_file_is_told_from_an_old_one(url: str, source: Path) -> None:
    store = ArtifactStore(url)
    kept = store.put(source)
    assert 0 <= store.age_s(kept.sha256) < 60
    assert [*store.digests(older_than_s=3600)] == []
    assert store.age_s("0" * 64) == 0


def test_putting_an_old_file_again_makes_it_young(tmp_path: Path, source: Path) -> None:
    store = ArtifactStore(str(tmp_path / "store"))
    kept = store.put(source)
    os.utime(tmp_path / "store" / kept.path, (0, 0))
    assert [*store.digests(older_than_s=3600)] == [kept.sha256]
    store.put(source)
    assert [*store.digests(older_than_s=3600)] == []


def test_nothing_half_written_is_ever_seen(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    store = ArtifactStore(str(tmp_path / "store"))
    monkeypatch.setattr("shutil.copyfileobj", fail)
    with pytest.raises(OSError, match="No space"):
        store.put(source)
    assert not store.has(digest(CONTENT))
    assert [*store.digests(older_than_s=0)] == []


@pytest.mark.parametrize("name", ["../x", "", "A" * 64, "0" * 63])
def test_only_a_digest_names_an_artifact(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is not a digest"):
        ArtifactStore(str(tmp_path)).has(name)
