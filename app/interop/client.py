"""The API's part for exports and imports, as the command line asks for it."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final

from app.client import AS_IS, Service
from app.problems import Problem

EXPORT_TIMEOUT_S: Final = 3600
"""It is made while it is sent."""


class InteropService(Service):
    """Every method raises ``Refused``."""

    @contextmanager
    def export(self, experiment_id: str, name: str, run: str | None) -> Generator[Iterator[bytes]]:
        """An export in pieces, while the context lasts."""
        path, query = f"/experiments/{experiment_id}/export/{name}", {} if run is None else {"run": run}
        with self._streamed("GET", path, params=query, headers=AS_IS, timeout=EXPORT_TIMEOUT_S) as answer:
            yield answer.iter_bytes()

    def add_import(self, content: bytes, label: str, experiment_id: str | None) -> Problem:
        """Keep another tool's result."""
        query = {"label": label, **({} if experiment_id is None else {"experiment": experiment_id})}
        headers = {"content-type": "application/octet-stream"}
        return self._call("POST", "/imports", params=query, content=content, headers=headers)

    def imports(self, experiment_id: str | None = None) -> list[dict[str, Any]]:
        """Every imported result, or those beside an experiment."""
        return self._call("GET", "/imports" if experiment_id is None else f"/experiments/{experiment_id}/imports")

    def remove_import(self, digest: str) -> None:
        """Forget an imported result."""
        self._request("DELETE", f"/imports/{digest}")
