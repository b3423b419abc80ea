"""Spare each fresh server the subprocess by which vLLM asks what a model class supports (8 s or more).

Caches are private to a session, so that no arm profits from another's compiled code. These facts
are not compiled code: vLLM keys them by the hash of the class's source.
"""

import shutil
import tempfile
from pathlib import Path

FACTS = "modelinfos"


def lend(kept: Path, cache_root: Path) -> None:
    """Copy the facts kept from an earlier server, if there are any, into a fresh cache."""
    if kept.is_dir():
        shutil.copytree(kept, cache_root / FACTS, dirs_exist_ok=True)


def keep(cache_root: Path, kept: Path) -> None:
    """Add the facts that a ready server has found to those kept; each file appears whole."""
    for fact in (cache_root / FACTS).glob("*.json"):
        if not (kept / fact.name).exists():
            kept.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=kept, prefix=".", delete=False) as whole:
                whole.write(fact.read_bytes())
            Path(whole.name).rename(kept / fact.name)
