"""The Jinja environment and what every page shares: filters and hashed assets."""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from app.domain.access import LOCAL
from app.domain.errors import FieldProblem
from app.domain.lifecycle import EXPERIMENT_MOVES, ExperimentState, is_terminal
from app.pages import guard, wording
from app.settings import PROJECT_ROOT

FRONTEND = PROJECT_ROOT / "frontend"
STATIC = FRONTEND / "static"
FILTERS = (
    "number",
    "chance",
    "quantity",
    "interval",
    "provenance",
    "duration",
    "moment",
    "second",
    "size",
    "printable",
    "visible",
    "short",
    "first_sentence",
)
VENDORED = {"plotly": "plotly-cartesian-*.min.js", "htmx": "htmx-[0-9]*.min.js"}


@lru_cache
def asset(name: str) -> str:
    """The address of one of our static files, carrying its hash so that it may be cached for good."""
    content = (STATIC / name).read_bytes()
    return f"/static/{name}?v={hashlib.sha256(content).hexdigest()[:12]}"


@lru_cache
def vendored(name: str) -> str:
    """The address of a vendored file; exactly one version of it may be present."""
    (path,) = (STATIC / "vendor").glob(VENDORED[name])
    return f"/static/vendor/{path.name}"


def is_over(state: str) -> bool:
    """Whether an experiment in ``state`` will change no more."""
    return is_terminal(EXPERIMENT_MOVES, ExperimentState(state))


def _without_controls(value: object) -> object:
    """Any text that a page puts out, whoever wrote it; markup of our own is left alone."""
    return wording.printable(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def environment(templates: Path) -> Environment:
    """Autoescaping, no control characters, and an undefined name is an error, not an empty string."""
    env = Environment(
        loader=FileSystemLoader(templates),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_without_controls,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in FILTERS:
        env.filters[name] = getattr(wording, name)
    shared: dict[str, Any] = {"asset": asset, "vendored": vendored, "is_over": is_over}
    words: dict[str, Any] = {"symbols": wording.SYMBOLS, "metric_words": wording.METRIC_WORDS}
    env.globals.update(shared | words)
    return env


ENVIRONMENT = environment(FRONTEND / "templates")


def page(
    request: Request, template: str, context: Mapping[str, object], *, status: int = HTTPStatus.OK
) -> HTMLResponse:
    """Render a template with the request's form token; pages are never cached, their assets are."""
    token = guard.token_of(request)
    text = ENVIRONMENT.get_template(template).render(
        **context, token=token, path=request.url.path, who=account_of(request)
    )
    response = HTMLResponse(text, status_code=status, headers={"Cache-Control": "no-store"})
    guard.remember(request, response, token)
    return response


def account_of(request: Request) -> str | None:
    """The name of the account that is logged in."""
    kind, _, name = getattr(request.state, "principal", LOCAL).actor.partition(":")
    return name if kind == "account" else None


def error_page(request: Request, status: int, title: str, problems: tuple[FieldProblem, ...]) -> HTMLResponse:
    """An error in words: what is wrong, and what to do about it."""
    return page(request, "error.html", {"status": status, "title": title, "problems": problems}, status=status)
