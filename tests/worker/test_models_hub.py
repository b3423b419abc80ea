"""Commits of hub repositories: from the cache, from a hub over HTTP where that is allowed, and never half of one."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.domain.errors import DomainError
from tests.worker.fake_hub import (
    GATED,
    FakeHub,
    cache_listing,
    etag,
    files_of,
    make_snapshot,
    serve_hub,
)
from tests.worker.model_directory import make_model, put, save_weights
from worker.model_files.hub import Snapshot
from worker.models import hub_model, hub_models, local_model, resolve_model

REPOSITORY, COMMIT = "someone/tiny-model", "c0" * 20
REF = f"{REPOSITORY}@{COMMIT}"
NOWHERE = "0" * 40
RESOLVE = """
import json, sys
from pathlib import Path
from app.domain.errors import DomainError
from worker.models import resolve_model
answers = {}
for ref in sys.argv[2:]:
    try:
        answers[ref] = str(resolve_model(ref, Path("/nonexistent"), online=sys.argv[1] == "online"))
    except DomainError as refusal:
        answers[ref] = [problem.message for problem in refusal.problems]
print(json.dumps(answers))
"""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    """The files of a repository."""
    return files_of(make_model(tmp_path / "made"))


@pytest.fixture
def cache(tmp_path: Path, files: dict[str, bytes]) -> Path:
    """A cache with one snapshot."""
    make_snapshot(tmp_path / "hub", REPOSITORY, COMMIT, files)
    return tmp_path / "hub"


def resolved(ref: str, cache: Path) -> Path:
    return resolve_model(ref, Path("/nonexistent"), field="target_model", hub_cache=cache)


def refusal(ref: str, cache: Path) -> str:
    with pytest.raises(DomainError) as caught:
        resolved(ref, cache)
    [problem] = caught.value.problems
    assert problem.field == "target_model"
    assert problem.remedy
    return problem.message


def snapshot_of(cache: Path) -> Path:
    return cache / "models--someone--tiny-model" / "snapshots" / COMMIT


def test_a_commit_in_the_cache_resolves_without_a_hub(cache: Path) -> None:
    assert resolved(REF, cache) == snapshot_of(cache)


def test_it_says_the_same_as_the_same_files_in_a_directory(cache: Path, tmp_path: Path) -> None:
    [facts] = hub_models(cache)
    assert (facts.ref, facts.alias) == (REF, None)
    local = local_model(tmp_path / "made").facts
    assert facts.model_dump(exclude={"ref", "alias"}) == local.model_dump(exclude={"ref", "alias"})


def test_a_commit_that_is_not_there_is_refused_with_the_command_to_get_it(cache: Path) -> None:
    assert "is not in this host's model cache" in refusal(f"{REPOSITORY}@{NOWHERE}", cache)
    with pytest.raises(DomainError, match=f"hf download {REPOSITORY} --revision {NOWHERE}"):
        resolved(f"{REPOSITORY}@{NOWHERE}", cache)
    assert "is not in this host's model cache" in refusal(f"nobody/nothing@{NOWHERE}", cache)


@pytest.mark.parametrize("listed", [False, True], ids=["older cache", "with the tree's listing"])
@pytest.mark.parametrize("missing", ["model-00002-of-00002.safetensors", "config.json"])
def test_half_a_download_is_refused_by_the_name_of_what_is_missing(tmp_path: Path, missing: str, listed: bool) -> None:
    model = make_model(tmp_path / "made", **{"README.md": None, "image.png": b"png"})
    (model / "model.safetensors").unlink()
    names = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    for name in names:
        save_weights(model / name, {name: (3,)})
    put(model / "model.safetensors.index.json", {"weight_map": {name: name for name in names}})
    files, cache = files_of(model), tmp_path / "hub"
    path = make_snapshot(cache, REPOSITORY, COMMIT, {n: c for n, c in files.items() if n not in {missing, "image.png"}})
    if listed:
        cache_listing(cache, REPOSITORY, COMMIT, files)
    if listed or missing != "config.json":
        assert missing in refusal(REF, cache)
    with pytest.raises(DomainError, match=missing):
        hub_model(Snapshot.at(path))
    assert hub_models(cache) == ()


def test_only_what_an_engine_reads_must_be_there(tmp_path: Path, files: dict[str, bytes]) -> None:
    others = {
        "image.png": b"png",
        "original/model.pth": b"p",
        "consolidated.safetensors": b"c",
        "pytorch_model.bin": b"b",
    }
    make_snapshot(tmp_path / "hub", REPOSITORY, COMMIT, files)
    cache_listing(tmp_path / "hub", REPOSITORY, COMMIT, files | others)
    assert resolved(REF, tmp_path / "hub")


def test_an_interrupted_blob_is_a_link_to_nothing(cache: Path, files: dict[str, bytes]) -> None:
    blob = cache / "models--someone--tiny-model" / "blobs" / etag("model.safetensors", files["model.safetensors"])
    blob.rename(blob.with_suffix(".incomplete"))
    assert "model.safetensors is a link to nothing" in refusal(REF, cache)
    assert hub_models(cache) == ()


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_changed_blob_is_found_without_a_hub(cache: Path, name: str) -> None:
    blob = (snapshot_of(cache) / name).resolve()
    content = bytearray(blob.read_bytes())
    content[-2] ^= 1
    blob.write_bytes(content)
    assert f"{name} is not what was downloaded" in refusal(REF, cache)


def test_a_file_that_no_digest_names_is_refused(cache: Path) -> None:
    put(snapshot_of(cache) / "added.json", "{}")
    assert "added.json is called by no digest in the cache" in refusal(REF, cache)


def test_a_link_out_of_the_cache_is_refused(cache: Path) -> None:
    (snapshot_of(cache) / "stolen.json").symlink_to("/etc/hostname")
    assert "stolen.json is a link that leaves the directory" in refusal(REF, cache)
    assert hub_models(cache) == ()


def test_blobs_may_be_shared_between_repositories(cache: Path) -> None:
    blob = (snapshot_of(cache) / "model.safetensors").resolve()
    shared = cache / "blobs" / "ab" / ("ab" * 32)
    shared.parent.mkdir(parents=True)
    blob.rename(shared)
    blob.symlink_to(os.path.relpath(shared, blob.parent))
    assert resolved(REF, cache) == snapshot_of(cache)
    assert len(hub_models(cache)) == 1


def test_what_no_manifest_can_write_is_not_offered(cache: Path, files: dict[str, bytes]) -> None:
    make_snapshot(cache, "gpt2", COMMIT, files)
    make_snapshot(cache, "someone/branch", "main", files)
    (cache / "datasets--someone--data" / "snapshots" / COMMIT).mkdir(parents=True)
    put(cache / "models--someone--tiny-model" / "snapshots" / "file", "")
    assert [facts.ref for facts in hub_models(cache)] == [REF]


def test_every_commit_of_a_repository_is_offered(cache: Path, files: dict[str, bytes]) -> None:
    make_snapshot(cache, REPOSITORY, "d" * 40, files)
    assert [facts.ref for facts in hub_models(cache)] == [REF, f"{REPOSITORY}@{'d' * 40}"]


def test_a_cache_that_is_not_there_offers_nothing(tmp_path: Path) -> None:
    assert hub_models(tmp_path / "nowhere") == ()


@pytest.fixture(scope="module")
def online(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FakeHub, Path, dict[str, Any]]]:
    """A hub, a cache, and what a process that may ask the hub says of several references."""
    files = files_of(make_model(tmp_path_factory.mktemp("made") / "made"))
    weights = files["model.safetensors"]
    repositories = {
        (REPOSITORY, COMMIT): files | {"image.png": b"png", "pytorch_model.bin": b"b", "sub/part.json": b"{}"},
        ("someone/pickled", COMMIT): {"config.json": b"{}", "pytorch_model.bin": b"\x80\x04."},
        ("someone/cut", COMMIT): {"config.json": b"{}", "model.safetensors": weights[:-1]},
    }
    cache = tmp_path_factory.mktemp("cache")
    with serve_hub(repositories) as hub:
        commits = [*(f"{name}@{commit}" for name, commit in repositories), f"{REPOSITORY}@{NOWHERE}"]
        yield hub, cache, ask("online", cache, hub.url, *commits, f"{GATED}@{COMMIT}", f"someone/unknown@{COMMIT}")


def ask(how: str, cache: Path, endpoint: str, *refs: str) -> dict[str, Any]:
    """Resolve in a process of its own: the library reads its settings once, when it is imported."""
    own = {
        "HF_ENDPOINT": endpoint,
        "HF_HUB_CACHE": str(cache),
        "HF_HOME": str(cache / "home"),
        "PATH": os.environ["PATH"],
    }
    finished = subprocess.run(
        [sys.executable, "-c", RESOLVE, how, *refs], env=own, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


Online = tuple[FakeHub, Path, dict[str, Any]]


def test_a_commit_is_downloaded_where_that_is_allowed(online: Online) -> None:
    hub, cache, answers = online
    assert answers[REF] == str(snapshot_of(cache))
    present = {p.relative_to(snapshot_of(cache)).as_posix() for p in snapshot_of(cache).rglob("*") if p.is_file()}
    wanted = {*hub.repositories[REPOSITORY, COMMIT]} - {"image.png", "pytorch_model.bin"}
    assert present == wanted


def test_the_cache_of_these_tests_is_the_one_that_the_library_makes(online: Online, tmp_path: Path) -> None:
    _, cache, _ = online
    downloaded = cache / "models--someone--tiny-model"
    files = files_of(snapshot_of(cache))
    made = make_snapshot(tmp_path, REPOSITORY, COMMIT, files).parents[1]
    assert links_of(made) == links_of(downloaded)
    assert {p.name for p in (made / "blobs").iterdir()} == {p.name for p in (downloaded / "blobs").iterdir()}


def links_of(folder: Path) -> dict[str, str]:
    paths = (path for path in folder.rglob("*") if path.is_symlink())
    return {path.relative_to(folder).as_posix(): str(path.readlink()) for path in paths}


def test_pickles_are_fetched_only_where_there_is_nothing_safer(online: Online) -> None:
    _, cache, answers = online
    assert answers[f"someone/pickled@{COMMIT}"].endswith(COMMIT)
    assert (Path(answers[f"someone/pickled@{COMMIT}"]) / "pytorch_model.bin").read_bytes() == b"\x80\x04."
    assert not (snapshot_of(cache) / "pytorch_model.bin").exists()


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        (f"{REPOSITORY}@{NOWHERE}", f"{REPOSITORY} has no commit {NOWHERE}"),
        (f"{GATED}@{COMMIT}", "is gated on the hub"),
        (f"someone/unknown@{COMMIT}", "the hub shows no repository someone/unknown"),
        (f"someone/cut@{COMMIT}", "model.safetensors is truncated"),
    ],
)
def test_what_the_hub_refuses_is_said_plainly(online: Online, ref: str, message: str) -> None:
    _, _, answers = online
    [said] = answers[ref]
    assert message in said


def test_what_is_here_needs_no_hub(online: Online) -> None:
    hub, cache, _ = online
    before = len(hub.asked)
    assert ask("offline", cache, hub.url, REF) == {REF: str(snapshot_of(cache))}
    assert len(hub.asked) == before


def test_a_hub_that_cannot_be_reached_is_said_plainly(online: Online, tmp_path: Path) -> None:
    _, cache, _ = online
    missing = f"someone/else@{COMMIT}"
    answers = ask("online", cache, "http://127.0.0.1:1", REF, missing)
    assert answers[REF] == str(snapshot_of(cache)), "what is complete here needs no hub"
    [said] = answers[missing]
    assert "could not be downloaded" in said


def test_an_interrupted_download_is_completed(online: Online, tmp_path: Path) -> None:
    hub, cache, _ = online
    copied = shutil.copytree(cache, tmp_path / "copy", symlinks=True)
    weights = snapshot_of(copied) / "model.safetensors"
    weights.resolve().unlink()
    weights.unlink()
    assert "model.safetensors missing" in refusal(REF, copied)
    assert ask("online", copied, hub.url, REF) == {REF: str(snapshot_of(copied))}
