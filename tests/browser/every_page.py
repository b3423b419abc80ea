"""Every page with something on it, for tests that hold of all of them. A new page is one more line in ``addresses``."""

from collections.abc import Iterator
from typing import Any

from fastapi.routing import APIRoute
from playwright.sync_api import Page

from app.domain.manifest import Manifest
from app.pages.routes import router

FRAGMENTS = frozenset({"/experiments/{prefix}/live", "/experiments/{prefix}/stream", "/operations/live"})
"""Parts of pages, which have no page of their own."""


def addresses(page: Page, ended: Manifest, running: Manifest | None = None) -> dict[str, str]:
    """Name → address. ``ended`` has a differing answer; of ``running`` a block is under way."""
    at = _of(ended)
    runs = _items(page, f"/api/v1/experiments/{ended.digest}/runs")
    run = next(r for r in runs if r["arm"] != "target-only")
    workload = ended.workloads[0]
    first = f"{workload.name}-{ended.loads[0].name}-0"
    found = {
        "/": "/",
        "/experiments/{prefix}": at,
        "/experiments/{prefix}/compare": f"{at}/compare",
        "/experiments/{prefix}/mismatch": _mismatch(page, at),
        "/experiments/{prefix}/cases": f"{at}/cases",
        "/experiments/{prefix}/cases/{workload}/{request_id}": f"{at}/cases/{workload.name}/{first}",
        "/experiments/{prefix}/shelf": f"{at}/shelf",
        "/experiments/new": "/experiments/new",
        "a clone": f"/experiments/new?from={ended.digest[:12]}",
        "/compare": f"/compare?of={ended.digest[:12]}",
        "/runs/{run_id}": f"/runs/{run['id']}",
        "/sessions/{session_id}/log": f"/sessions/{run['session_id']}/log",
        "/workloads": "/workloads",
        "/workloads/new": "/workloads/new",
        "/imports": "/imports",
        "/imports/new": "/imports/new",
        "/workloads/{prefix}": f"/workloads/{workload.trace[:12]}",
        "/operations": "/operations",
        "/operations/accelerator": "/operations/accelerator?host=gpu1&name=GPU-cccc",
        "logging in": "/login",
        "an error": "/experiments/0123456789ab",
        "the printable report": f"/api/v1/experiments/{ended.digest}/report.html",
    }
    if running is not None:
        found["running"] = _of(running)
        found["across"] = f"/compare?of={ended.digest[:12]}&of={running.digest[:12]}"
    there = routes()
    return {name: path for name, path in found.items() if not name.startswith("/") or name in there}


def routes() -> frozenset[str]:
    """The paths of all pages that are read."""
    return frozenset(path for path in _paths(router.routes) if path not in FRAGMENTS)


def _paths(found: Any) -> Iterator[str]:
    for route in found:
        inner = getattr(route, "original_router", route)  # what an included router is behind
        if isinstance(route, APIRoute):
            yield from [route.path] if "GET" in (route.methods or ()) else []
        else:
            yield from _paths(getattr(inner, "routes", ()))


def _of(manifest: Manifest) -> str:
    return f"/experiments/{manifest.digest[:12]}"


def _items(page: Page, path: str) -> list[dict[str, Any]]:
    answer = page.request.get(path).json()
    return answer if isinstance(answer, list) else answer["items"]


def _mismatch(page: Page, at: str) -> str:
    page.goto(f"{at}/compare")
    return page.locator("table.mismatches a").first.get_attribute("href") or ""
