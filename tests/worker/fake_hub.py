"""A small Hugging Face Hub on loopback, and the cache that the library makes of it.

It answers what the library asks for a pinned commit: the tree, the head of each file, and the file, large ones
by way of a redirect. Small files are called by git's digest, large ones by their sha256, as on the Hub.
"""

import hashlib
import json
import os
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

LARGE = (".safetensors", ".bin")
GATED = "someone/gated"


@dataclass(frozen=True, slots=True)
class FakeHub:
    """``repositories`` maps name and commit to files; ``asked`` collects method and path of each request."""

    url: str
    repositories: Mapping[tuple[str, str], Mapping[str, bytes]]
    asked: list[str] = field(default_factory=list[str])

    @property
    def storage_url(self) -> str:
        """Where large files are: another host, as with the Hub, so that the library does not ask there for heads."""
        return self.url.replace("127.0.0.1", "localhost")


@contextmanager
def serve_hub(repositories: Mapping[tuple[str, str], Mapping[str, bytes]]) -> Generator[FakeHub]:
    """A hub with these repositories, until the context ends."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        hub = FakeHub(f"http://127.0.0.1:{server.server_port}", repositories)
        _hubs[server.server_port] = hub
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield hub
        server.shutdown()
        thread.join()
        del _hubs[server.server_port]


def make_snapshot(cache: Path, repository: str, commit: str, files: Mapping[str, bytes]) -> Path:
    """What a download of that commit leaves in the cache, but for the cached listing of its tree."""
    folder = cache / f"models--{repository.replace('/', '--')}"
    for name, content in files.items():
        blob = folder / "blobs" / etag(name, content)
        blob.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(content)
        link = folder / "snapshots" / commit / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    (folder / "refs").mkdir(exist_ok=True)
    (folder / "refs" / "main").write_text(commit)
    return folder / "snapshots" / commit


def cache_listing(cache: Path, repository: str, commit: str, files: Mapping[str, bytes]) -> None:
    """Add the listing of the commit's tree that newer versions of the library keep."""
    listed = {name: {"size": len(content), "blob_id": git_sha1(content)} for name, content in files.items()}
    path = cache / f"models--{repository.replace('/', '--')}" / "trees" / f"{commit}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"format_version": 1, "files": listed}))


def files_of(directory: Path) -> dict[str, bytes]:
    """Every file of a model directory, as a repository has it."""
    paths = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in paths}


def etag(name: str, content: bytes) -> str:
    """What the Hub calls a file of this content."""
    return hashlib.sha256(content).hexdigest() if name.endswith(LARGE) else git_sha1(content)


def git_sha1(content: bytes) -> str:
    """What git calls it."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


_hubs: dict[int, FakeHub] = {}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def _hub(self) -> FakeHub:
        return _hubs[cast("ThreadingHTTPServer", self.server).server_port]

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def log_message(self, *_: Any) -> None:  # type: ignore[override]
        """Nothing on stderr."""

    def _answer(self, *, with_body: bool) -> None:
        path = urlsplit(self.path).path
        self._hub.asked.append(f"{self.command} {path}")
        status, headers, body = self._route(path.strip("/").split("/"))
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def _route(self, parts: list[str]) -> tuple[int, dict[str, str], bytes]:
        match parts:
            case ["api", "models", owner, name, "tree", commit, *_]:
                return self._of_commit(f"{owner}/{name}", commit, None)
            case [owner, name, "resolve", commit, *path]:
                return self._of_commit(f"{owner}/{name}", commit, "/".join(path))
            case ["cdn", wanted]:
                files = (item for held in self._hub.repositories.values() for item in held.items())
                return 200, {"ETag": f'"{wanted}"'}, next(c for n, c in files if etag(n, c) == wanted)
            case _:
                return 404, {}, b"{}"

    def _of_commit(self, repository: str, commit: str, path: str | None) -> tuple[int, dict[str, str], bytes]:
        if repository == GATED:
            return 403, {"X-Error-Code": "GatedRepo"}, b"{}"
        if repository not in {name for name, _ in self._hub.repositories}:
            return 401, {"X-Error-Code": "RepoNotFound"}, b"{}"
        files = self._hub.repositories.get((repository, commit))
        if files is None:
            return 404, {"X-Error-Code": "RevisionNotFound"}, b"{}"
        if path is None:
            return (
                200,
                {"Content-Type": "application/json"},
                json.dumps([_listed(*file) for file in files.items()]).encode(),
            )
        return self._of_file(commit, path, files[path])

    def _of_file(self, commit: str, path: str, content: bytes) -> tuple[int, dict[str, str], bytes]:
        called = etag(path, content)
        headers = {"X-Repo-Commit": commit, "ETag": f'"{called}"'}
        if not path.endswith(LARGE):
            return 200, headers, content
        linked = {"X-Linked-Etag": f'"{called}"', "X-Linked-Size": str(len(content))}
        return 302, headers | linked | {"Location": f"{self._hub.storage_url}/cdn/{called}"}, b""


def _listed(name: str, content: bytes) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "file", "path": name, "size": len(content), "oid": git_sha1(content)}
    if name.endswith(LARGE):
        entry["lfs"] = {"oid": etag(name, content), "size": len(content), "pointerSize": 134}
    return entry
