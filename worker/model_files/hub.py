"""Snapshots in the Hugging Face cache: found by commit, completed from the hub where that is allowed, and checked.

The cache calls a file by the digest of its content, so that a snapshot can be held to what was downloaded.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import httpx2
from huggingface_hub import HfApi, constants, get_cached_repo_tree, snapshot_download
from huggingface_hub.errors import (
    CachedRepoTreeNotFoundError,
    GatedRepoError,
    HFValidationError,
    IncompleteSnapshotError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from app.domain.references import MODEL_PATTERN
from worker.model_files.tree import Entry, ModelRefused, Tree, unreadable

READ = ("*.jinja", "*.json", "*.model", "*.safetensors", "*.tiktoken", "*.txt", "README.md")
"""What an engine or this service reads of a repository."""
PICKLES = ("*.bin", "*.pt", "*.pth")
"""Read only where there are no safetensors."""
COPIES = ("consolidated*", "metal/*", "onnx/*", "openvino/*", "original/*")
"""The same weights in another form."""
SHA256_DIGITS = 64
SHA1_DIGITS = 40
CHUNK_BYTES = 1024**2
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One commit of one repository; ``folder`` is the repository's part of the cache, with its blobs."""

    repository: str
    commit: str
    path: Path
    folder: Path

    @classmethod
    def at(cls, path: Path) -> "Snapshot":
        """The snapshot that the cache keeps under ``path``."""
        folder = path.parents[1]
        return cls("/".join(folder.name.split("--")[1:]), path.name, path, folder)

    @property
    def ref(self) -> str:
        """How a manifest names it."""
        return f"{self.repository}@{self.commit}"

    @property
    def cache(self) -> Path:
        """The whole cache: repositories may share blobs."""
        return self.folder.parent


def snapshots(hub_cache: Path | None = None) -> Iterator[Snapshot]:
    """Every commit of every model in the cache, by name; what no manifest can write is left out."""
    root = hub_cache or Path(constants.HF_HUB_CACHE)
    for path in sorted(root.glob("models--*--*/snapshots/*")):
        snapshot = Snapshot.at(path)
        if re.fullmatch(MODEL_PATTERN, snapshot.ref):
            yield snapshot


def find_snapshot(repository: str, commit: str, *, online: bool, hub_cache: Path | None, field: str) -> Snapshot:
    """The snapshot in the cache, completed from the hub if ``online``. Raises ``ModelRefused`` about ``field``."""
    listed: tuple[str, ...] = ()
    try:
        listed = _listing(repository, commit, hub_cache, online=online)
        path = snapshot_download(
            repository,
            revision=commit,
            cache_dir=hub_cache,
            local_files_only=not online,
            allow_patterns=[*_patterns(listed)],
            ignore_patterns=[*COPIES],
        )
    except IncompleteSnapshotError as error:
        raise _incomplete(repository, commit, listed, Path(error.snapshot_path), field) from error
    except (HFValidationError, httpx2.HTTPError, OSError) as error:
        raise _explained(error, repository, commit, field, online=online) from error
    return Snapshot.at(Path(path))


def verify_blobs(tree: Tree, sha256s: Mapping[str, str]) -> None:
    """Hold every file of a snapshot to the digest that its blob is called by. Raises ``ModelRefused``."""
    for entry in tree.entries:
        path = tree.root / entry.name
        # Only the first link names the blob: that may lead on into a store which repositories share.
        called = path.readlink().name if path.is_symlink() else ""
        if len(called) not in {SHA256_DIGITS, SHA1_DIGITS}:
            remedy = "copy the snapshot under the model root (cp -rL) and name it as a local model"
            message = "is called by no digest in the cache, so that its content cannot be checked"
            raise ModelRefused.of(entry.name, message, remedy)
        found = sha256s[entry.name] if len(called) == SHA256_DIGITS else _git_sha1(path, entry)
        if found != called:
            raise ModelRefused.of(entry.name, "is not what was downloaded", "remove the snapshot and download it again")


def _listing(repository: str, commit: str, hub_cache: Path | None, *, online: bool) -> tuple[str, ...]:
    """The names of the commit's files; empty where the cache has no listing and the hub may not be asked."""
    try:
        files = get_cached_repo_tree(repository, revision=commit, cache_dir=hub_cache)
        return tuple(file.path for file in files)
    except CachedRepoTreeNotFoundError:
        return tuple(HfApi().list_repo_files(repository, revision=commit)) if online else ()


def _patterns(listed: Iterable[str]) -> tuple[str, ...]:
    has_safetensors = any(name.endswith(".safetensors") for name in listed)
    return READ if has_safetensors else (*READ, *PICKLES)


def _incomplete(repository: str, commit: str, listed: Iterable[str], path: Path, field: str) -> ModelRefused:
    read, listed = _patterns(listed), tuple(listed)
    wanted = [n for n in listed if any(fnmatch(n, p) for p in read) and not any(fnmatch(n, p) for p in COPIES)]
    missing = [name for name in wanted if not (path / name).exists()]
    names = ", ".join(missing[:SHOWN]) + (f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else "")
    message = f"{repository}@{commit} is incomplete in this host's model cache: {names} missing"
    return ModelRefused.of(field, message, _how_to_download(repository, commit))


def _explained(error: Exception, repository: str, commit: str, field: str, *, online: bool) -> ModelRefused:
    match error:
        case GatedRepoError():
            return ModelRefused.of(
                field, f"{repository} is gated on the hub", "accept its terms there, then: hf auth login"
            )
        case RevisionNotFoundError():
            return ModelRefused.of(field, f"{repository} has no commit {commit}", "correct the commit")
        case RepositoryNotFoundError():
            remedy = "correct the name; for a private repository: hf auth login"
            return ModelRefused.of(field, f"the hub shows no repository {repository}", remedy)
        case LocalEntryNotFoundError() | OfflineModeIsEnabled() if not online:
            message = f"{repository}@{commit} is not in this host's model cache"
            return ModelRefused.of(field, message, _how_to_download(repository, commit))
        case _:
            message = f"{repository}@{commit} could not be downloaded: {' '.join(str(error).split())[:300]}"
            return ModelRefused.of(
                field, message, "check the hub (HF_ENDPOINT), the network and the disk, then try again"
            )


def _how_to_download(repository: str, commit: str) -> str:
    return f"download it first: hf download {repository} --revision {commit}, or set VERDRAFT_ONLINE=true"


def _git_sha1(path: Path, entry: Entry) -> str:
    """The name that git gives a file of this content."""
    sha1 = hashlib.sha1(b"blob %d\0" % entry.size, usedforsecurity=False)
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                sha1.update(chunk)
    except OSError as error:
        raise unreadable(entry.name, error) from error
    return sha1.hexdigest()
