"""The models of this host, each under a name that cannot come to mean another: by digest or by commit.

``local:<alias>@sha256:<digest>`` is a directory under the model root, ``<repository>@<40-hex commit>`` a snapshot
in the Hugging Face cache. A name says what should be there; the files say what is.
"""

import re
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import structlog

from app.domain.capability import ModelFacts
from app.domain.errors import FieldProblem
from app.domain.references import MODEL_PATTERN
from app.domain.vocabulary import NAME_PATTERN
from app.settings import Settings
from worker.model_files.digests import DigestCache, tree_digest
from worker.model_files.facts import HASHED_FILES, model_facts
from worker.model_files.hub import Snapshot, find_snapshot, snapshots, verify_blobs
from worker.model_files.tree import ModelRefused, Tree, scan
from worker.model_files.weights import weights_of

LOCAL = "local:"
FORGETFUL = DigestCache()
"""Hashes everything each time it is asked."""
HOW_TO_PIN = (
    "write local:<alias>@sha256:<64 hex> or <repository>@<40-hex commit>; `verdraft model list` shows those here"
)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model's files, and what they say."""

    tree: Tree
    facts: ModelFacts


@dataclass(frozen=True, slots=True)
class BrokenModel:
    """What looks like a model and cannot be used, with the reason."""

    name: str
    refusal: ModelRefused


def model_digest(directory: Path, digests: DigestCache = FORGETFUL) -> str:
    """The sha256 over the sorted (relative path, sha256) pairs of every file but the card. Raises ``ModelRefused``."""
    return tree_digest(digests.sha256s(scan(directory)))


def digest_cache(settings: Settings) -> DigestCache:
    """What the processes of this host remember together of the files that they have hashed."""
    return DigestCache(settings.digest_root)


def resolve_model(
    ref: str,
    model_root: Path,
    *,
    online: bool = False,
    field: str = "model",
    digests: DigestCache = FORGETFUL,
    hub_cache: Path | None = None,
) -> Path:
    """The directory of exactly the referenced model; ``ModelRefused`` about ``field`` where it is not here.

    ``ref`` is ``local:<alias>@sha256:<digest>`` or ``<repository>@<40-hex commit>``. Hub models are
    looked up in the local cache only, unless ``online``; ``hub_cache`` is by default the library's own.
    """
    source, _, revision = _pinned(ref, field).rpartition("@")
    if ref.startswith(LOCAL):
        return _verified_directory(ref, _directory(source.removeprefix(LOCAL), model_root, field), field, digests)
    snapshot = find_snapshot(source, revision, online=online, hub_cache=hub_cache, field=field)
    with _about(field, ref):
        tree = scan(snapshot.path, links_within=snapshot.cache)
        verify_blobs(tree, digests.sha256s(tree))
        weights_of(tree)
    return snapshot.path


def find_model(name: str, settings: Settings) -> FoundModel:
    """The model of a pinned reference, or that of an alias as it is now. Raises ``ModelRefused`` about ``ref``."""
    digests, alias = digest_cache(settings), name.removeprefix(LOCAL)
    if re.fullmatch(NAME_PATTERN, alias):
        directory = _directory(alias, settings.model_root, "ref")
        with _about("ref", f"local model {alias}"):
            return local_model(directory, digests)
    path = resolve_model(name, settings.model_root, online=settings.online, field="ref", digests=digests)
    with _about("ref", name):
        return local_model(path, digests) if name.startswith(LOCAL) else hub_model(Snapshot.at(path), digests)


def offered_models(settings: Settings) -> tuple[ModelFacts, ...]:
    """Every model that a manifest may name on this host; of what cannot be used the reason is logged."""
    return _usable(survey_models(settings))


def survey_models(settings: Settings) -> Iterator[FoundModel | BrokenModel]:
    """Everything that looks like a model: the local directories, then the snapshots of the hub's cache."""
    digests = digest_cache(settings)
    yield from _local(settings.model_root, digests)
    yield from _hub(None, digests)


def local_models(model_root: Path, *, digests: DigestCache = FORGETFUL) -> tuple[ModelFacts, ...]:
    """The facts of each usable directory under ``model_root``; of any other the reason is logged."""
    return _usable(_local(model_root, digests))


def hub_models(hub_cache: Path | None = None, *, digests: DigestCache = FORGETFUL) -> tuple[ModelFacts, ...]:
    """The facts of each usable snapshot in the Hugging Face cache; of any other the reason is logged."""
    return _usable(_hub(hub_cache, digests))


def local_model(directory: Path, digests: DigestCache = FORGETFUL) -> FoundModel:
    """One local model. Raises ``ModelRefused`` naming the file that is wrong."""
    alias = directory.name
    if not re.fullmatch(NAME_PATTERN, alias):
        raise ModelRefused.of(".", "has a name that no manifest can write", "use only a-z, 0-9, dot, _ and -")
    tree = scan(directory)
    sha256s = digests.sha256s(tree)
    ref = f"{LOCAL}{alias}@sha256:{tree_digest(sha256s)}"
    return FoundModel(tree, model_facts(tree, sha256s, ref=ref, alias=alias))


def hub_model(snapshot: Snapshot, digests: DigestCache = FORGETFUL) -> FoundModel:
    """One snapshot; its commit names it, so that its weights are not hashed. Raises ``ModelRefused``."""
    find_snapshot(snapshot.repository, snapshot.commit, online=False, hub_cache=snapshot.cache, field="snapshot")
    tree = scan(snapshot.path, links_within=snapshot.cache)
    sha256s = digests.sha256s(tree, only=HASHED_FILES)
    return FoundModel(tree, model_facts(tree, sha256s, ref=snapshot.ref, alias=None))


def _pinned(ref: str, field: str) -> str:
    if not re.fullmatch(MODEL_PATTERN, ref):
        raise ModelRefused.of(field, "it names no model by a full commit or a digest; all else can change", HOW_TO_PIN)
    return ref


def _directory(alias: str, model_root: Path, field: str) -> Path:
    if not (model_root / alias).is_dir():
        here = ", ".join(path.parent.name for path in sorted(model_root.glob("[!.]*/config.json"))) or "none"
        raise ModelRefused.of(field, f"there is no local model {alias} (here: {here})", "correct the alias or add it")
    return model_root / alias


def _verified_directory(ref: str, directory: Path, field: str, digests: DigestCache) -> Path:
    expected = ref.rpartition(":")[2]
    with _about(field, f"local model {directory.name}"):
        tree = scan(directory)
        found = tree_digest(digests.sha256s(tree))
    if found != expected:
        message = f"local model {directory.name} has sha256:{found}, not sha256:{expected}"
        raise ModelRefused.of(field, message, "restore the files, or pin the digest that is here in a new manifest")
    with _about(field, f"local model {directory.name}"):
        weights_of(tree)
    return directory


def _local(model_root: Path, digests: DigestCache) -> Iterator[FoundModel | BrokenModel]:
    directories = (path for path in sorted(model_root.glob("[!.]*")) if path.is_dir())
    return _each((path.name, partial(local_model, path, digests)) for path in directories)


def _hub(hub_cache: Path | None, digests: DigestCache) -> Iterator[FoundModel | BrokenModel]:
    return _each((snapshot.ref, partial(hub_model, snapshot, digests)) for snapshot in snapshots(hub_cache))


def _each(models: Iterable[tuple[str, Callable[[], FoundModel]]]) -> Iterator[FoundModel | BrokenModel]:
    for name, find in models:
        try:
            yield find()
        except ModelRefused as refusal:
            yield BrokenModel(name, refusal)


def _usable(models: Iterable[FoundModel | BrokenModel]) -> tuple[ModelFacts, ...]:
    usable: list[ModelFacts] = []
    for model in models:
        if isinstance(model, BrokenModel):
            _log_once(model.name, str(model.refusal))
        else:
            usable.append(model.facts)
    return tuple(usable)


@cache
def _log_once(name: str, reason: str) -> None:
    """Workers publish at every wake; a broken model is worth one line."""
    log.warning("model left out", model=name, reason=reason)


@contextmanager
def _about(field: str, model: str) -> Generator[None]:
    """A refusal that names a file becomes one about the field that named the model."""
    try:
        yield
    except ModelRefused as refusal:
        problems = (FieldProblem(field, f"{model}: {p.field} {p.message}", p.remedy) for p in refusal.problems)
        raise ModelRefused(*problems) from refusal
