"""Where the field's clients are, and what keeps them on this host and their results readable."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
RIVALS = ROOT / ".runtimes" / "rivals"
"""One virtual environment each, made by ``scripts/rivals.sh``."""

ALONE = {
    # What they cache or remember stays beside them, not in the home of whoever measures.
    "HOME": str(RIVALS / "home"),
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    # One core is lent: threads of a tokenizer or of numpy would only take turns on it.
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_NUM_THREADS": "1",
}
"""The part of ``environment()`` that is the same for all: no network, no telemetry, no threads."""

PROMPT_TOKENS = 16
PROMPT = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
"""For clients that take a text; about ``PROMPT_TOKENS`` tokens."""

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000


def command(client: str) -> str:
    """The client's executable, in the environment of the same name."""
    return str(RIVALS / client / "bin" / client)


@contextmanager
def results_of(client: str) -> Generator[None]:
    """Result files of a form that we do not know are a ``ValueError``, whatever reading them raised."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, sqlite3.Error) as error:
        raise ValueError(f"{client} wrote results of another form: {error!r}") from error
