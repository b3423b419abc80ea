"""A runtime whose speculation has a defect: its ``vllm`` starts an engine and puts the proxy before it.

Target-only is that engine itself, so that an experiment on such a runtime has a sound baseline and knows nothing.
"""

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from tokenizers import Tokenizer

from tests.fakes.completions import text_of
from tests.fakes.defects import Defect, Kind, Words
from tests.fakes.proxy import proxied
from tests.fakes.runtime import REPOSITORY, write_program
from worker.engine.containment import child_setup

DEFECT_FILE = "defect.json"
SPECULATES = "--speculative-config"
SOCKET = "--uds"
BEHIND = ".e"
"""Added to the socket's path; short, since such paths are."""

_VLLM = """#!{python}
import sys

sys.path.insert(0, {repository!r})

from tests.fakes.defective import main

sys.exit(main({engine!r}, {directory!r}))
"""


def make_defective_runtime(root: Path, engine: Path, defect: Defect) -> Path:
    """A runtime at ``root`` that is the one at ``engine`` in all but its ``bin/vllm``; returns ``root``."""
    (root / "bin").mkdir(parents=True)
    (root / "lib").symlink_to((engine / "lib").resolve())
    parts = [*(engine / "bin").iterdir(), *engine.glob("*.cfg"), *engine.glob("*.json")]
    for path in (part for part in parts if not part.is_dir()):
        shutil.copy2(path, root / path.relative_to(engine), follow_symlinks=False)
    vllm = root / "bin" / "vllm"
    vllm.unlink()
    names = {"engine": str((engine / "bin" / "vllm").resolve()), "directory": str(root)}
    write_program(vllm, _VLLM, repository=str(REPOSITORY), **names)
    set_defect(root, defect)
    return root


def set_defect(root: Path, defect: Defect) -> None:
    """What servers that start from now on have."""
    (root / DEFECT_FILE).write_text(json.dumps(asdict(defect)))


def words_of(model: Path) -> Words:
    """By the model's tokenizer; a model of the fake engine has none."""
    path = model / "tokenizer.json"
    if not path.exists():
        return lambda token_ids: text_of(list(token_ids))
    tokenizer = Tokenizer.from_file(str(path))
    return lambda token_ids: tokenizer.decode(list(token_ids))


def main(engine: str, directory: str) -> int:
    """What ``bin/vllm`` runs: the engine itself, or where it speculates the engine behind a proxy."""
    argv = [engine, *sys.argv[1:]]
    if SPECULATES not in argv or SOCKET not in argv:
        os.execv(engine, argv)  # noqa: S606  (no shell is the point)
    stated = json.loads((Path(directory) / DEFECT_FILE).read_text())
    return asyncio.run(_serve(argv, Defect(**stated | {"kind": Kind(stated["kind"])})))


async def _serve(argv: Sequence[str], defect: Defect) -> int:
    """The engine's exit code as a shell gives it."""
    at = argv.index(SOCKET) + 1
    shown, hidden = argv[at], argv[at] + BEHIND
    # It shares the group and the environment, by which the product finds it, and the locks that it inherits.
    engine = await asyncio.create_subprocess_exec(
        *argv[:at], hidden, *argv[at + 1 :], close_fds=False, preexec_fn=child_setup(())
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, _pass_on, engine, number)
    async with proxied(hidden, shown, defect, words_of(Path(argv[2]))):
        code = await engine.wait()
    return code if code >= 0 else 128 - code


def _pass_on(engine: asyncio.subprocess.Process, number: int) -> None:
    with suppress(ProcessLookupError):
        engine.send_signal(number)
