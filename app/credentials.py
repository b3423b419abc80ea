"""Where the client's token comes from: ``VERDRAFT_TOKEN``, or the file that ``verdraft login`` wrote for a service."""

import json
import os
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

ENVIRONMENT: Final = "VERDRAFT_TOKEN"


def credentials_file() -> Path:
    """By the XDG rules; only its owner can read it."""
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "verdraft" / "credentials.json"


def token_for(url: str) -> str | None:
    """The token to send to ``url``; one for another service is never sent."""
    return os.environ.get(ENVIRONMENT) or _read().get(origin_of(url))


def remember(url: str, token: str) -> Path:
    """Keep a token for one service."""
    return _write(_read() | {origin_of(url): token})


def forget(url: str) -> bool:
    """Whether there was a token for it."""
    known = _read()
    gone = known.pop(origin_of(url), None)
    _write(known)
    return gone is not None


def origin_of(url: str) -> str:
    """Scheme, host and port."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def _read() -> dict[str, str]:
    try:
        known = json.loads(credentials_file().read_text())
    except (OSError, ValueError):
        return {}
    return {str(url): str(token) for url, token in known.items()} if isinstance(known, dict) else {}


def _write(known: dict[str, str]) -> Path:
    file = credentials_file()
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    unfinished = file.with_suffix(".part")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as content:
        json.dump(known, content)
    unfinished.replace(file)
    return file
